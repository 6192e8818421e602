"""Where the workers of a run live: here, or on other hosts. The launcher need not know which."""
