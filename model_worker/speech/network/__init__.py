"""The acoustic model."""
