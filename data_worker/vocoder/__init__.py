"""The vocoder's data half: recordings become segments of audio, mel and pitch."""
