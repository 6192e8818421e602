"""A trained voice at work: text to sound, and its export."""
