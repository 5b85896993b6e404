"""Agent: a model with tools and context that lives in a session."""

from __future__ import annotations
