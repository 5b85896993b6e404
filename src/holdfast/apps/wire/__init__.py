"""How programs talk to each other, one line each: lines, frames, pipes, one end of a talk."""
