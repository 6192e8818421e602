"""What a machine has: GPUs, cores, how busy they are."""
