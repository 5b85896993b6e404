"""Reading short pieces of many logs: the folder above them is opened once, each log once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.model import is_id
from holdfast.storage._file_log import LOG_NAME
from holdfast.storage._names import check_prefix
from holdfast.storage._tree import let_go
from holdfast.storage.base import Pieces, Stamp

if TYPE_CHECKING:
    from holdfast.storage._tree import Tree
    from holdfast.storage.disk import Disk

__all__ = ["read_pieces"]

_checked = lru_cache(maxsize=16)(check_prefix)


def read_pieces(tree: Tree, starts: Mapping[str, Sequence[int]], size: int) -> dict[str, Pieces]:
    """What each plain log has at these places; what cannot be had so is left out."""
    found: dict[str, Pieces] = {}
    for above, keys in groupby(starts, _folder):
        try:
            with tree.opened(_checked(above)) as folder:
                if folder is None:
                    continue
                for key in keys:
                    name = key[len(above) :]
                    pieces = _read(tree.disk, folder, name, starts[key], size)
                    if pieces is not None:
                        found[key] = pieces
        except (OSError, HoldfastError):
            continue  # reading the log itself tells what is wrong
    return found


def _folder(key: str) -> str:
    return key[: key.rfind("/") + 1]


def _read(disk: Disk, folder: int, name: str, starts: Sequence[int], size: int) -> Pieces | None:
    if not is_id(name):
        return None
    opened: list[int] = []
    try:
        directory = disk.open_directory(name, folder)
        opened.append(directory)
        log = disk.open_read(LOG_NAME, directory)
        opened.append(log)
        node = disk.node(log)
        stamp = Stamp(node.inode, node.size, node.modified)
        return Pieces(stamp, [disk.read_at(log, size, start) for start in starts])
    except OSError:
        return None
    finally:
        for descriptor in opened:
            let_go(disk, descriptor)
