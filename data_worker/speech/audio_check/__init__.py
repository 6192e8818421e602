"""One recording looked at before it is trusted."""
