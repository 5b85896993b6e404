"""The index as an SQLite database."""
