"""Sealed prefixes: a digest of a log's first bytes that goes on without reading them again.

The log is cut into blocks of 1 MiB. ``link`` k is the SHA-256 of link k-1 and block k-1; the digest
at an offset is that of the link of its block and the bytes between. A snapshot keeps both, so that
the next one reads a block and what is new, and whoever verifies reads the log once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.storage import Log

__all__ = ["PrefixChain", "prefix_digest"]

BLOCK_BYTES = 1 << 20


def _linked(link: bytes, data: bytes) -> bytes:
    return hashlib.sha256(link + data).digest()


class PrefixChain:
    """The digests at some places of a log that is read from its beginning, in chunks."""

    def __init__(self, offsets: Iterable[int] = (), *, link: bytes = b"", start: int = 0) -> None:
        self._offsets = sorted(set(offsets), reverse=True)
        self.link = link
        """What stands for all blocks before the one that is being read."""
        self._at = start
        self._waiting = bytearray()
        self.digests: dict[int, str] = {}
        """The digest at each of the places that were reached, by offset."""

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the log."""
        view = memoryview(chunk)
        while view:
            room = BLOCK_BYTES - len(self._waiting)
            if self._offsets:
                room = min(room, self._offsets[-1] - self._at)
            self._waiting += view[:room]
            self._at += len(view[:room])
            view = view[room:]
            self._settle()

    def digest_here(self) -> str:
        """The digest of everything that was read."""
        return _linked(self.link, bytes(self._waiting)).hex()

    def _settle(self) -> None:
        if len(self._waiting) == BLOCK_BYTES:
            self.link = _linked(self.link, bytes(self._waiting))
            self._waiting.clear()
        if self._offsets and self._offsets[-1] == self._at:
            self.digests[self._offsets.pop()] = self.digest_here()


def prefix_digest(log: Log, offset: int, link: str, linked: int) -> tuple[str, str]:
    """The digest of a log's first ``offset`` bytes, and the link of the block that they end in.

    ``link`` is one of an earlier place, for its first ``linked`` bytes; empty for none.
    """
    start = linked // BLOCK_BYTES * BLOCK_BYTES if link else 0
    chain = PrefixChain([offset], link=bytes.fromhex(link), start=start)
    left = offset - start
    for chunk in log.read(start) if left else ():
        chain.feed(chunk[:left])
        left -= min(left, len(chunk))
        if not left:
            break
    return chain.digests.get(offset, ""), chain.link.hex()
