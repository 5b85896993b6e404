"""What every HTTP app of ours puts before itself: who may come in, how much, and what goes out."""
