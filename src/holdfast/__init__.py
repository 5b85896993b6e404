"""Holdfast keeps the sessions of AI agents on one durable event log."""
