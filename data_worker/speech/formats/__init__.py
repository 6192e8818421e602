"""Data sets as they lie on disk: which layout, which rows."""
