"""Sessions as people read them, for every app: conversations, times and sizes in words, trees."""
