"""Data files of the catalogue in ``data/``, which people can read and change without Python.

Short commands load this for the mark of the prices, so it imports nothing itself.
"""

from __future__ import annotations

import os
from zlib import crc32

from holdfast.errors import Unavailable

TYPE_CHECKING = False  # loading `typing` takes longer than this module
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_CHECK_BYTES = 4


def read_data(name: str) -> bytes:
    """Return the bytes of a data file."""
    # By the loader of this module, which also reads from a zip file: importlib.resources takes longer to load than a
    # short list command in total.
    loader: Any = __spec__.loader
    try:
        found: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), "data", name))
    except OSError as error:
        raise Unavailable(f"a data file of Holdfast cannot be read: {error}", errno=error.errno) from error
    return found


def data_lines(name: str) -> list[str]:
    """Return the lines of a data file that are neither empty nor a comment."""
    lines = map(str.strip, read_data(name).decode().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def data_statements(name: str) -> list[str]:
    whole = "\n".join(line for line in read_data(name).decode().splitlines() if not line.startswith("--"))
    return [statement for statement in whole.split(";") if statement.strip()]


def read_topics(name: str) -> dict[str, list[str]]:
    """Return the entries of a vocabulary by topic: each is below its ``[topic]``."""
    found: dict[str, list[str]] = {}
    topic = ""
    for line in data_lines(name):
        if line.startswith("["):
            topic = line[1:-1]
        else:
            found.setdefault(topic, []).extend(line.split())
    return found


def with_check(data: bytes) -> bytes:
    """Return the bytes after a checksum of them."""
    return crc32(data).to_bytes(_CHECK_BYTES, "big") + data


def without_check(data: bytes) -> bytes:
    """Return the bytes after their checksum. Raises ValueError if they do not match."""
    found = data[_CHECK_BYTES:]
    if with_check(found) != data:
        raise ValueError("its checksum is wrong")
    return found


def price_mark(own: Mapping[str, Any] | None = None) -> str:
    """Return the mark of these prices, with the user's own, which distinguishes them from others."""
    # Over the bytes of the list: a short list command then need not parse it.
    return f"{crc32(read_data('prices.txt'), crc32(repr(sorted((own or {}).items())).encode())):08x}"
