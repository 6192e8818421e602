"""The data process on the wire: tickets in, batches out."""
