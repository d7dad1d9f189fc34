"""What `bench-peers` is made of: `prepare` fetches and builds, `measure` runs one side of a comparison, `report` puts
the numbers side by side."""
