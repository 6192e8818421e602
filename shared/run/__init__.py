"""The run directory: its files, its environment, and going on with it."""
