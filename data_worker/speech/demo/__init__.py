"""A small corpus that a synthesiser speaks, for the demo and for whoever brings no data."""
