"""Where a catalogue of a store on another machine is kept: in the user's cache directory."""

from __future__ import annotations

import hashlib
import os

from holdfast.errors import HoldfastError
from holdfast.storage._tree import Tree, real_path, translation
from holdfast.storage.disk import Disk

__all__ = ["cache_place"]


def cache_place(address: str) -> str | None:
    """The path of a file for this address, in a private directory; None where there can be none.

    The address itself, which may have a password in it, is not to be seen there.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    try:
        folder = real_path(os.path.join(home, "holdfast"))
    except HoldfastError:
        return None
    tree = Tree(folder, Disk())
    try:
        with translation(f"making {folder}"):
            tree.root(create=True)
    except HoldfastError:
        return None
    finally:
        tree.close()
    return os.path.join(folder, f"{hashlib.sha256(address.encode()).hexdigest()[:32]}.db")
