"""The model process: trains the acoustic model from a bounded, ordered queue of batches."""
