"""What a run waits for, and what would help. Pure."""
