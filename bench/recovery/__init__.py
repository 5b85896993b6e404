"""Broken histories, and the results of each framework's repair function.

``python -m bench.recovery`` writes RECOVERY.md. A history here is a flat list of items, so that all
forms can be compared: ``{"role": "user", "text"}``, ``{"role": "assistant", "text", "calls":
[{"id", "name", "input"}]}`` and ``{"role": "tool", "id", "text"}``, one for each result.
"""
