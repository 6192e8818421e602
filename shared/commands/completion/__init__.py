"""`launcher.py completion SHELL`: flags completed by the shell."""
