"""What both halves of the speech task need: the mel, the text, the silence at the ends."""
