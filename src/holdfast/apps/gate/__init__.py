"""Access checks and limits of every HTTP app: who may connect, how much they may send, and what goes out."""
