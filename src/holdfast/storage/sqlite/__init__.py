"""The SQLite store, and the one door to SQLite."""
