"""The head of a log in a bucket: the one object that says which others count."""

from __future__ import annotations

import msgspec

from holdfast.errors import Damaged
from holdfast.storage._s3_objects import Objects

__all__ = ["Head", "KeptHead", "Sealed"]


class Sealed(Exception):
    """The folder belongs to a key that went: nothing is ever written there again."""


class Head(msgspec.Struct, omit_defaults=True, frozen=True):
    """Which objects count, and who may write them; every change of it is by compare and swap.

    Whoever takes the lease puts its epoch here before its fence. So a writer that lost the lease
    cannot put another generation in force: the head is not what it was when that one began.
    """

    generation: int = 0
    archived: bool = False
    replaced: int = 0
    """How often the log became another one; a cut writes new objects and leaves it the same."""
    epoch: int = 0
    place: str = ""
    """A folder of its own for each generation: what a late writer puts into its own counts not."""
    sealed: bool = False
    changed_ms: int = 0
    """Of an archived log: when it was last changed. Its objects are only as old as the archive."""

    @property
    def mark(self) -> str:
        """The name of the folder of this generation."""
        return f"{self.generation:08d}{self.place}"


class KeptHead:
    """The head of one folder, as it is in the bucket."""

    def __init__(self, objects: Objects, folder: str) -> None:
        self._objects = objects
        self._folder = folder
        self._path = f"{folder}/head"

    def read(self) -> tuple[Head, str]:
        """The head as it is now, and its etag; an empty one, and none, if there is no object.

        Raises Damaged for one that cannot be read.
        """
        found = self._objects.get(self._path)
        return (Head(), "") if found is None else (self._decode(found.data), found.etag)

    def write(self, head: Head, etag: str) -> bool:
        """Put it in the place of the one that was read with this etag; whether it still was."""
        data = msgspec.json.encode(head)
        if etag:
            return self._objects.swap(self._path, data, etag)
        return self._objects.create(self._path, data)

    def _decode(self, data: bytes) -> Head:
        try:
            return msgspec.json.decode(data, type=Head)
        except msgspec.MsgspecError as error:
            raise Damaged(f"the head of {self._folder} cannot be read: {error}") from error
