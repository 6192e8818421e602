"""Tickets to batches: scheduling, readers, the feature cache, the trial of a crash."""
