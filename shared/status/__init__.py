"""What a run that goes on shows to whoever looks at it from another process."""
