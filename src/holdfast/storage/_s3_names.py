"""The names of a bucket's keys: small objects that say which folder a key stands for.

Every change of a name is by compare and swap, also its end: a name is never deleted, since between
looking and deleting another one could have made the key anew. What is left of a name that went is
an empty object, which a list shows as such without being asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from uuid import uuid4

import msgspec

from holdfast.errors import Damaged, HoldfastError
from holdfast.storage._s3_objects import Listed, Objects
from holdfast.storage.base import check_key

__all__ = ["Name", "Named", "Names"]

_GONE = b""
_ID = re.compile(r"[0-9a-f]{32}")


class Name(msgspec.Struct, omit_defaults=True, frozen=True):
    """Which id a key stands for."""

    id: str
    to: str = ""
    """Where it is being moved to; the key is gone once the new name is there."""
    gone: bool = False
    """The key is gone, and what it had is being removed."""

    @property
    def folder(self) -> str:
        """Where the things of the key lie."""
        return f"data/{self.id}"


class Named(NamedTuple):
    """A name, and the mark of this version of it."""

    name: Name
    etag: str


class Names:
    """All names below one prefix."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def get(self, key: str) -> Named | None:
        """The name of a key that has one. Raises Damaged."""
        named = self.raw(key)[0]
        if named is None or named.name.gone:
            return None
        if named.name.to:
            moved = self.raw(named.name.to)[0]
            if moved is not None and moved.name.id == named.name.id and not moved.name.gone:
                self.swap(key, named.etag, None)  # a move that a crash kept from its end
                return None
        return named

    def raw(self, key: str) -> tuple[Named | None, str]:
        """What the object of a name says, with its etag; None and the etag of one that went."""
        found = self._objects.get(f"names/{key}")
        if found is None or found.data == _GONE:
            return None, "" if found is None else found.etag
        try:
            name = msgspec.json.decode(found.data, type=Name)
        except msgspec.MsgspecError as error:
            raise Damaged(f"the name of {key} cannot be read: {error}") from error
        if not _ID.fullmatch(name.id):
            raise Damaged(f"the name of {key} stands for no folder")
        return Named(name, found.etag), found.etag

    def claim(self, key: str, name: Name) -> bool:
        """Give a key a name that has none; False if it has one by now."""
        named, etag = self.raw(key)
        if named is not None and not named.name.gone:
            return named.name == name
        path, data = f"names/{key}", msgspec.json.encode(name)
        if etag:
            return self._objects.swap(path, data, etag)
        return self._objects.create(path, data)

    def swap(self, key: str, etag: str, name: Name | None) -> bool:
        """Replace this version of a name; with None the key has no name any more."""
        data = _GONE if name is None else msgspec.json.encode(name)
        return self._objects.swap(f"names/{key}", data, etag)

    def made(self, key: str) -> Name:
        """The name of a key, which is made if there is none."""
        while True:
            named = self.get(key)
            if named is not None:
                return named.name
            self.claim(key, Name(uuid4().hex))

    def listed(self, prefix: str) -> Iterator[tuple[str, Listed]]:
        """The keys of a folder that may have a name."""
        for one in self._objects.list(f"names/{prefix}"):
            key = one.path.removeprefix("names/")
            if one.size and "/" not in key.removeprefix(prefix) and _is_key(key):
                yield key, one


def _is_key(key: str) -> bool:
    try:
        check_key(key)
    except HoldfastError:
        return False
    return True
