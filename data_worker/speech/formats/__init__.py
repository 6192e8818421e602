"""Data sets as they lie on disk: which format, which rows."""
