"""`launcher.py bench`: the modes side by side on this machine and this data."""
