"""What `bench-tenants` is made of: `client` reads streams, `scenarios` measures, `report` compares with the bars, and
`plot` draws."""
