"""A guard for whoever reads a document without keys: what is sealed is not damaged."""

from __future__ import annotations

from holdfast.errors import KeyMissing

__all__ = ["check_unsealed"]

_SEALED = b"HFSEAL\0"  # as security/_seal.py begins them


def check_unsealed(data: bytes, name: str) -> bytes:
    """The bytes of a document. Raises KeyMissing if they are sealed, and so nobody's to replace."""
    if data.startswith(_SEALED):
        raise KeyMissing(f"{name} is sealed and its key is not here", document=name)
    return data
