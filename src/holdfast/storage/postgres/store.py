"""The PostgreSQL store: sessions of many machines, fenced by the database itself.

An append is taken at once and sent with what other sessions have waiting; a flush returns once it is committed.
Whoever lost the lease finds the epoch changed in the very statement that would store its lines, and is fenced.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from holdfast.model import fold_id
from holdfast.storage._leases import LeasedStore
from holdfast.storage._pieces import check_branch
from holdfast.storage.base import Capabilities, Changes, Entry, check_key, check_prefix
from holdfast.storage.postgres.key import (
    PostgresDocuments,
    PostgresLease,
    PostgresLog,
    branch_key,
    drop_key,
    move_key,
    renew,
    repack_key,
)
from holdfast.storage.postgres.link import ServerLink, read_options
from holdfast.storage.postgres.sender import LinkSender
from holdfast.storage.postgres.tables import CHANGES_TOGETHER_BITS
from holdfast.storage.urls import cache_place

_EARS_MAX = 256
_ENTRIES = """
SELECT n.key, h.id, h.size, h.generation, h.version::text AS version,
    (extract(epoch FROM h.modified) * 1000)::bigint AS modified
FROM names n JOIN heads h USING (id) WHERE h.generation > 0
"""
# Found by the index, which has many changes together, and then one by one. Names are looked up for
# what was found: the server, which cannot know how little that is, would read through all of them.
_CHANGED = """
SELECT n.key FROM heads h
CROSS JOIN LATERAL (SELECT key, folder FROM names WHERE id = h.id OFFSET 0) n
WHERE h.changed >= $3 AND h.version >= $2::text::xid8 AND n.folder = $1
UNION SELECT key FROM removals WHERE folder = $1 AND version >= $2::text::xid8
"""
_XID_DIGITS_MAX = 20


class PostgresStore(LeasedStore):
    """One schema of one database, shared by everyone who may use it."""

    capabilities = Capabilities(syncs=True, shared=True, can_steal=True, defers=True, archives=True)

    def __init__(self, url: str) -> None:
        super().__init__()
        dsn, options = read_options(url)
        self.url = url
        self.link = ServerLink(dsn, options)
        self._sender = LinkSender(self.link)
        self._ears: dict[str, tuple[str, threading.Event]] = {}
        self._ears_lock = threading.Lock()

    def log(self, key: str) -> PostgresLog:
        return PostgresLog(self.link, self._sender, check_key(key))

    def documents(self, key: str) -> PostgresDocuments:
        return PostgresDocuments(self.link, check_key(key))

    def lease(self, key: str) -> PostgresLease:
        return PostgresLease(self.link, self.renewer, check_key(key))

    def clash(self, key: str) -> str | None:
        query = (
            "SELECT n.key FROM names n JOIN heads h USING (id)"
            " WHERE n.folded = $1 AND n.key <> $2 AND h.generation > 0 LIMIT 1"
        )
        rows = self.link.fetch(query, fold_id(check_key(key)), key)
        return rows[0]["key"] if rows else None

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        check_prefix(prefix)
        for row in self.link.fetch(f"{_ENTRIES} AND n.folder = $1", prefix):
            yield _entry(row)

    def entry(self, key: str) -> Entry | None:
        """The entry of one key, with what this process has appended to it."""
        self._sender.catch_up(key)
        rows = self.link.fetch(f"{_ENTRIES} AND n.key = $1", check_key(key))
        return _entry(rows[0]) if rows else None

    def changes(self, mark: str, prefix: str = "sessions/") -> Changes:
        """The keys that changed, by the transactions that the mark had not seen the end of."""
        check_prefix(prefix)
        self._sender.catch_up()
        now = self.link.fetch(
            "SELECT i.name, i.forgotten::text AS forgotten,"
            " pg_snapshot_xmin(pg_current_snapshot())::text AS seen FROM identity i"
        )[0]
        identity, _, seen = mark.partition(":")
        new = f"{now['name'].hex}:{now['seen']}"
        known = identity == now["name"].hex and seen.isdecimal() and len(seen) < _XID_DIGITS_MAX
        if not known or int(seen) <= int(now["forgotten"]):
            return Changes(new, None, listed=True)
        rows = self.link.fetch(_CHANGED, prefix, seen, int(seen) >> CHANGES_TOGETHER_BITS)
        return Changes(new, frozenset(row["key"] for row in rows), listed=False)

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        """Every key that has a name. What else has that name later is known by its etag."""
        check_prefix(prefix)
        rows = self.link.fetch("SELECT key FROM names WHERE folder = $1", prefix)
        return {row["key"]: "" for row in rows}

    def catalog_place(self) -> str | None:
        """In the user's cache directory, for a role that may not keep it in the database."""
        return cache_place(self.url)

    def space_catalog_place(self, space: str) -> str | None:
        """In the user's cache directory: what is in the database is of all, and not of a space."""
        return cache_place(f"{self.url}#spaces/{space}")

    def lend_catalog(self) -> ServerLink:
        """The database itself, for one catalogue of all machines."""
        return self.link

    def move(self, key: str, to: str) -> None:
        """Under another name: only the name is written, whatever the key has."""
        check_key(key)
        check_key(to)
        self.link.run(lambda connection: move_key(connection, key, to), again=False)

    def drop(self, key: str) -> None:
        check_key(key)
        self.link.run(lambda connection: drop_key(connection, key), again=False)

    def branch(self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None) -> None:
        """A copy, made by the server."""
        check_branch(self, key, to, size)
        self.link.run(lambda connection: branch_key(connection, key, to, size, documents or {}), again=False)

    def _repack(self, key: str, *, archived: bool) -> None:
        self.link.run(lambda connection: repack_key(connection, key, archived=archived))

    def _renew_all(self, held: Mapping[str, tuple[int, int]]) -> set[str]:
        return renew(self.link, held)

    def is_archived(self, key: str) -> bool:
        rows = self.link.fetch(
            "SELECT h.archived FROM names n JOIN heads h USING (id) WHERE n.key = $1", check_key(key)
        )
        return bool(rows and rows[0]["archived"])

    def scrub(self) -> list[str]:
        """The server decides when it writes over what was removed."""
        told = (
            "PostgreSQL keeps removed rows in its files, its log and its backups until it writes"
            " over them; VACUUM FULL hastens it."
        )
        return [told]

    def wait(self, key: str, seconds: float) -> None:
        """Woken by what the server says to those who listen."""
        ear = self._ear(key)
        if ear is None:
            super().wait(key, seconds)
            return
        ear.wait(seconds)
        ear.clear()

    def _ear(self, key: str) -> threading.Event | None:
        """What is set when the key's log went on; None if there is no such key."""
        with self._ears_lock:
            found = self._ears.pop(key, None)
            if found is not None:
                self._ears[key] = found  # the one that was used last comes last
        if found is not None:
            self.link.keep_listening()
            return found[1]
        rows = self.link.fetch("SELECT id FROM names WHERE key = $1", key)
        if not rows:
            return None
        name = str(rows[0]["id"])
        new = (name, self.link.listen(name))
        with self._ears_lock:
            kept = self._ears.setdefault(key, new)
            gone = [] if kept is new else [new]
            while len(self._ears) > _EARS_MAX:
                gone.append(self._ears.pop(next(iter(self._ears))))
        for one in gone:
            self.link.unlisten(*one)
        return kept[1]

    def location(self, key: str) -> str:
        """The database, without its password, and the key in it."""
        parts = urlsplit(self.url)
        place = parts.netloc.rpartition("@")[2]
        return f"{urlunsplit((parts.scheme, place, parts.path, '', ''))}#{check_key(key)}"

    def check(self) -> None:
        """Reach the server and see to it that the tables are there."""
        self.link.fetch("SELECT name FROM identity")

    def close(self) -> None:
        self._sender.close()
        super().close()
        self.link.close()


def _entry(row: Any) -> Entry:
    etag = f"{row['id'].hex}-{row['generation']}-{row['size']}-{row['version']}"
    return Entry(row["key"], row["size"], row["modified"], etag)
