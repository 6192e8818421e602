"""The model process on the wire: tickets out, batches in, in order."""
