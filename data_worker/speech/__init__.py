"""The data half of the speech task: recordings to features."""
