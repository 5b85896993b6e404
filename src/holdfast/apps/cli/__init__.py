"""The command ``holdfast``: one module per verb, loaded when it is asked for."""

from __future__ import annotations

from holdfast.apps.cli._app import App, cli, main

__all__ = ["App", "cli", "main"]
