"""One module for each format that a session is written in."""
