"""The look at a data set before any GPU is used: what `launcher.py check-data` runs."""
