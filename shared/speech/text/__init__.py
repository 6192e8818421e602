"""Text to the symbols that the model reads. Import the module you need; nothing is loaded here."""
