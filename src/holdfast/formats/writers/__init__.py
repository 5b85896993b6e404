"""One module for each format in which a session is written."""
