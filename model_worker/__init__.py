"""The model process: trains the model from a bounded, ordered queue of batches."""
