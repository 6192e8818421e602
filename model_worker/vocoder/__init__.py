"""The vocoder's model half: mels become samples."""
