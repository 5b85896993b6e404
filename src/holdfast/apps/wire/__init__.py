"""Communication between programs, one message per line: lines, frames, pipes, and one end of a connection."""
