"""The latest figures of every section: ``bench/results.json``.

Each section is kept by itself, so that one can be measured again alone, and one that fails takes
nothing from the others.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence

import msgspec

import holdfast
from bench.figures import Line

__all__ = ["PATH", "Section", "keep", "kept"]

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results.json")


class Section(msgspec.Struct, omit_defaults=True):
    """The result of one section: its lines, or the reason why it has none."""

    rounds: int
    seconds: float
    machine: str
    lines: list[Line]
    failed: str = ""


def machine() -> str:
    """Return the machine and versions of the measurement."""
    versions = f"Holdfast {holdfast.__version__}, Python {platform.python_version()}"
    return f"{versions}, msgspec {msgspec.__version__}, {sys.platform}, {os.cpu_count()} processors"


def section(lines: Sequence[Line], rounds: int, seconds: float, failed: str = "") -> Section:
    """Return a section that was just measured."""
    return Section(rounds, round(seconds, 1), machine(), list(lines), failed)


def kept(path: str = PATH) -> dict[str, Section]:
    """Return every section by its name; empty if nothing was measured yet."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        return msgspec.json.decode(file.read(), type=dict[str, Section])
    return {}


def keep(found: Mapping[str, Section], path: str = PATH) -> dict[str, Section]:
    """Replace these sections, and return all of them."""
    known = kept(path) | found
    beside = f"{path}.new"
    with open(beside, "wb") as file:
        file.write(_readable(known))
    os.replace(beside, path)
    return known


def _readable(sections: Mapping[str, Section]) -> bytes:
    """Encode a row for each line of each section, so that a changed figure changes one row."""
    encode = msgspec.json.encode
    parts = []
    for name, one in sections.items():
        head = encode(msgspec.structs.replace(one, lines=[])).replace(b'"lines":[]', b'"lines":[%b]')
        rows = b",\n".join(b"  " + encode(line) for line in one.lines)
        parts.append(encode(name) + b": " + head % (b"\n" + rows + b"\n" if rows else b""))
    return b"{\n" + b",\n".join(parts) + b"\n}\n"
