"""Logs and traces of what an app does to sessions, as the settings want them."""

from __future__ import annotations

import sys

from holdfast._config import Configuration, configuration
from holdfast.errors import UsageError
from holdfast.library import Holdfast

__all__ = ["watch"]


def watch(hf: Holdfast, *, level: str = "off", has_screen: bool = False) -> None:
    """Begin what ``log.level``, ``log.file`` and ``otel`` ask for; nothing is loaded for nothing.

    ``level`` counts where neither level nor file is set. An app that ``has_screen`` tells nothing
    on standard error, where someone reads: it only writes to a file. Raises UsageError if a package
    is missing, and as ``log_to`` does.
    """
    settings = configuration()
    file = settings.get("log.file")
    if file is not None or not has_screen:
        _write_logs(hf, settings, file, level if file is None else "info")
    if settings.get("otel", False):
        _trace(hf)


def _write_logs(hf: Holdfast, settings: Configuration, file: str | None, default: str) -> None:
    level = settings.get("log.level", default)
    if level == "off":
        return
    from holdfast.observe import log_to

    observer = log_to(file or sys.stderr, level, settings.get("log.format", "json"))
    if observer is not None:
        hf.observe(observer)


def _trace(hf: Holdfast) -> None:
    try:
        from holdfast.observe import observe
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`otel` is set, and needs the package {error.name}", remedy="Install it with: pip install 'holdfast[otel]'"
        ) from error
    observe(hf, store=False)
