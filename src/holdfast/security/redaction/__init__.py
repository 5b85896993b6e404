"""Secrets in what is recorded: found by what is known of them, and replaced by marks."""
