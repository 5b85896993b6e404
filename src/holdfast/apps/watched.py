"""Logs and traces of what an app does to sessions, as the settings want them."""

from __future__ import annotations

import sys

from holdfast._config import configuration
from holdfast.errors import UsageError
from holdfast.library import Holdfast


def watch(hf: Holdfast, *, level: str = "off", has_screen: bool = False) -> None:
    """Begin what ``log.level``, ``log.file`` and ``otel`` ask for; nothing is loaded for nothing.

    ``level`` counts where neither level nor file is set. An app that ``has_screen`` tells nothing on standard error,
    where someone reads: it only writes to a file. Raises UsageError if a package is missing, and as ``log_to`` does.
    """
    settings = configuration()
    file = settings.get("log.file")
    level = settings.get("log.level", level if file is None else "info")
    if level != "off" and (file is not None or not has_screen):
        from holdfast.observe import log_to

        observer = log_to(file or sys.stderr, level, settings.get("log.format", "json"))
        if observer is not None:
            hf.observe(observer)
    if not settings.get("otel", False):
        return
    try:
        from holdfast.observe import observe
    except ModuleNotFoundError as error:
        told = f"`otel` is set, and needs the package {error.name}"
        raise UsageError(told, remedy="Install it with: pip install 'holdfast[otel]'") from error
    observe(hf, store=False)
