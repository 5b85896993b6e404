"""What keeps recorded text from doing harm, and files from being read by others."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.security._text import escape_json, neutralise, neutralise_line

if TYPE_CHECKING:
    from holdfast.security._passphrase import (
        is_sealed_file,
        open_with_passphrase,
        seal_with_passphrase,
    )

# Loaded when first asked for: most programs seal nothing.
_LAZY = {
    "is_sealed_file": "_passphrase",
    "open_with_passphrase": "_passphrase",
    "seal_with_passphrase": "_passphrase",
}

__all__ = [
    "escape_json",
    "is_sealed_file",
    "neutralise",
    "neutralise_line",
    "open_with_passphrase",
    "seal_with_passphrase",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value
