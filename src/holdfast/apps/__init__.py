"""What people run: the command, and later the terminal app, the web app and the bridges."""

from __future__ import annotations
