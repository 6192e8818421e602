"""What a run is asked to do: options, the sections they stand in, TOML files, flags."""
