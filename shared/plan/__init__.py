"""What is in batch n: the index, the buckets, the plan, what is left out of it."""
