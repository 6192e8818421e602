"""The data process's part in `launcher.py validate`."""
