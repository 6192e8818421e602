"""The model half of the speech task: text to mel to sound."""
