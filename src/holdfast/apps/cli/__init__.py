"""The command ``holdfast``: one module per verb, loaded when it is asked for."""

from __future__ import annotations

from holdfast.apps.cli._start import main

TYPE_CHECKING = False  # loading `typing` takes longer than what the quick start needs
if TYPE_CHECKING:
    from typing import Any

    from holdfast.apps.cli._app import App, cli

__all__ = ["App", "cli", "main"]


def __getattr__(name: str) -> Any:
    if name not in ("App", "cli"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.apps.cli import _app

    value = globals()[name] = getattr(_app, name)
    return value
