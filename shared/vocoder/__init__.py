"""What both halves of the vocoder task need: what its batches hold."""
