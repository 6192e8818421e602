"""The data process: files in, finished batches out."""
