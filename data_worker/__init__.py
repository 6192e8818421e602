"""The data process: speech files in, finished batches out."""
