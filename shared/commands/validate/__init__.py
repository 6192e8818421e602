"""`launcher.py validate`: the checks of a two-GPU machine."""
