"""What espeak-ng does not read as people do, put into words that it does. Nothing is loaded here."""
