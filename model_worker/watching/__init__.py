"""What a training run writes down: numbers, logs, summaries."""
