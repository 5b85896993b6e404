"""Secrets in recorded data: found by rules and known values, and replaced by marks."""
