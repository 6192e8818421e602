"""The page that lives: a run's report while it goes on, served to browsers on loopback."""
