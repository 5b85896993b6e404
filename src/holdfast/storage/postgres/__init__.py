"""The PostgreSQL store: sessions of many machines, fenced by the database itself."""
