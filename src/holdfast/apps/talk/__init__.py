"""What every app needs that lets people talk: agents on sessions, and what was typed."""
