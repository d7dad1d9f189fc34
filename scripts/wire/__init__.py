"""What `bench-http` is made of: `client` reads many streams in one thread, `threads` says what a server's threads took,
`scenarios` measures, and `report` compares with the bars."""
