"""One optimizer step, validation, and the state that a checkpoint holds."""
