"""The index in the database of a PostgreSQL store."""
