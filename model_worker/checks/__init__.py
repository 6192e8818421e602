"""The model process's part in `launcher.py validate` and `bench`."""
