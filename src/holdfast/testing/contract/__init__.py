"""The store contract, as tests that any store can run."""
