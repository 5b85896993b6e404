"""A store of your own: sessions in Redis, in one file.

Every change is one Lua script, which Redis runs as a whole or not at all; the epoch is checked in
it, so a writer that lost its lease is fenced by the very call that would store its lines. With
``appendonly yes`` and ``appendfsync always`` on the server, what a call returned survives power
loss; ``WAIT`` and replicas are up to you.

A package makes such a store known to ``holdfast.open("redis://…")`` by an entry point:

    [project.entry-points."holdfast.stores"]
    redis = "my_package:RedisStore"

and shows that it keeps every promise with the contract suite that Holdfast ships:

    from holdfast.testing import StoreContract

    class TestRedisStore(StoreContract):
        def make_store(self):
            return RedisStore(url, prefix=uuid4().hex)
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from uuid import uuid4

import redis

import holdfast
from holdfast.errors import Conflict, Fenced, Locked, NotFound
from holdfast.model import fold_id
from holdfast.storage import Capabilities, Documents, Entry, Lease, Log, Store
from holdfast.storage.base import check_document_name, check_key, check_prefix, needs_log

# A key has a string `log`, a hash `head` (generation, changes, modified), a hash `docs`, a hash
# `lease` (epoch, holder, until). KEYS are those four; a script answers with "fenced" or "locked".
_APPEND = """
if tonumber(redis.call('HGET', KEYS[4], 'epoch') or 0) ~= tonumber(ARGV[1]) then return 'fenced' end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('HINCRBY', KEYS[2], 'generation', 1) end
redis.call('APPEND', KEYS[1], ARGV[2])
redis.call('HINCRBY', KEYS[2], 'changes', 1)
redis.call('HSET', KEYS[2], 'modified', ARGV[3])
return 'stored'
"""
_REPLACE = """
if tonumber(redis.call('HGET', KEYS[4], 'epoch') or 0) ~= tonumber(ARGV[1]) then return 'fenced' end
if ARGV[4] ~= '' then redis.call('HSET', KEYS[3], ARGV[4], ARGV[5]) end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('HINCRBY', KEYS[2], 'generation', tonumber(ARGV[6]))
redis.call('HINCRBY', KEYS[2], 'changes', 1)
redis.call('HSET', KEYS[2], 'modified', ARGV[3])
return 'stored'
"""
_PUT = """
local old = redis.call('HGET', KEYS[3], ARGV[1])
if ARGV[3] ~= '*' and ARGV[3] ~= (old and redis.sha1hex(old) or '') then
    return {'conflict', old and redis.sha1hex(old) or ''}
end
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
return {'stored', ''}
"""
_NOW = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
_FREE = """
local function free(lease)
    local holder = redis.call('HGET', lease, 'holder')
    return not holder or holder == '' or tonumber(redis.call('HGET', lease, 'until') or 0) <= now
end
"""
_ACQUIRE = f"""
{_NOW}{_FREE}
local mine = redis.call('HGET', KEYS[4], 'holder') == ARGV[1]
if not mine and not free(KEYS[4]) then return -1 end
if not mine then redis.call('HINCRBY', KEYS[4], 'epoch', 1) end
redis.call('HSET', KEYS[4], 'holder', ARGV[1], 'until', now + tonumber(ARGV[2]))
return tonumber(redis.call('HGET', KEYS[4], 'epoch'))
"""
_RELEASE = """
if redis.call('HGET', KEYS[4], 'holder') == ARGV[1] then
    redis.call('HSET', KEYS[4], 'holder', '')
end
return 1
"""
# KEYS 5 to 8 are those of the new name.
_MOVE = f"""
{_NOW}{_FREE}
if redis.call('EXISTS', KEYS[1]) + redis.call('EXISTS', KEYS[3]) == 0 then return 'missing' end
if not free(KEYS[4]) then return 'locked' end
if KEYS[5] then
    local noted = redis.call('EXISTS', KEYS[7]) == 1
    if redis.call('EXISTS', KEYS[5]) == 1 or (noted and ARGV[1] == '0') then return 'taken' end
    if not free(KEYS[8]) then return 'locked' end
    redis.call('DEL', KEYS[5], KEYS[6], KEYS[7])
    for i = 1, 3 do if redis.call('EXISTS', KEYS[i]) == 1 then
        redis.call('RENAME', KEYS[i], KEYS[i + 4]) end end
    local here = tonumber(redis.call('HGET', KEYS[4], 'epoch') or 0)
    local there = tonumber(redis.call('HGET', KEYS[8], 'epoch') or 0)
    redis.call('HSET', KEYS[8], 'epoch', math.max(here, there) + 1)
else
    redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
end
redis.call('HINCRBY', KEYS[4], 'epoch', 1)
return 'done'
"""


class RedisStore(Store):
    """Sessions below one prefix of one Redis database."""

    capabilities = Capabilities(survives_kill=True, syncs=False, shared=True, can_steal=True)

    def __init__(self, url: str, prefix: str = "holdfast") -> None:
        self.url = url
        self.prefix = prefix
        self.client = redis.Redis.from_url(url)

    def log(self, key: str) -> Log:
        """The key's log."""
        return RedisLog(self, check_key(key))

    def documents(self, key: str) -> Documents:
        """The key's documents."""
        return RedisDocuments(self, check_key(key))

    def lease(self, key: str) -> Lease:
        """The key's lease."""
        return RedisLease(self, check_key(key))

    def exists(self, key: str) -> bool:
        """Whether the key has a log."""
        return bool(self.client.exists(self.names(check_key(key))[0]))

    def clash(self, key: str) -> str | None:
        """A key that differs only by case."""
        folder = check_key(key).rpartition("/")[0] + "/"
        others = (entry.key for entry in self.entries(folder) if entry.key != key)
        return next((other for other in others if fold_id(other) == fold_id(key)), None)

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Done at once: what a call returned is stored as safely as the server stores."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """Every key with a log in a folder."""
        check_prefix(prefix)
        start = f"{self.prefix}:{prefix}"
        for found in self.client.scan_iter(match=f"{start}*:log", count=1000):
            key = found.decode()[len(self.prefix) + 1 : -len(":log")]
            if "/" in key[len(prefix) :]:
                continue
            log, head, *_ = self.names(key)
            size, about = self.client.strlen(log), self.client.hgetall(head)
            etag = f"{about.get(b'generation', b'').decode()}-{about.get(b'changes', b'').decode()}"
            yield Entry(key, size, int(about.get(b"modified", b"0")), etag)

    def move(self, key: str, to: str) -> None:
        """One script renames everything."""
        names = [*self.names(check_key(key)), *self.names(check_key(to))]
        self._settle(key, to, self.client.eval(_MOVE, 8, *names, int(needs_log(to))))

    def drop(self, key: str) -> None:
        """One script removes everything; the epoch stays, so that old writers stay fenced."""
        self._settle(key, key, self.client.eval(_MOVE, 4, *self.names(check_key(key)), 0))

    def location(self, key: str) -> str:
        """The name below which the key lies."""
        return f"redis:{self.prefix}:{check_key(key)}"

    def check(self) -> None:
        """Raise if the server does not answer."""
        self.client.ping()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def names(self, key: str) -> list[str]:
        """The Redis keys of one of ours."""
        return [f"{self.prefix}:{key}:{part}" for part in ("log", "head", "docs", "lease")]

    def _settle(self, key: str, to: str, answer: bytes) -> None:
        if answer == b"missing":
            raise NotFound(f"no such file or directory: {key}")
        if answer == b"taken":
            raise Conflict(f"{to} is taken")
        if answer == b"locked":
            raise _locked(key)


class RedisLog(Log):
    """One string."""

    def __init__(self, store: RedisStore, key: str) -> None:
        self._client = store.client
        self._names = store.names(key)
        self._key = key

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """One script: the epoch is compared and the bytes are added, or nothing happens."""
        self._check(self._client.eval(_APPEND, 4, *self._names, epoch, bytes(data), _now()))

    def sync(self) -> None:
        """What a call returned is stored."""

    def read(self, start: int = 0) -> Iterator[bytes]:
        """A piece at a time."""
        while data := self._client.getrange(self._names[0], start, start + (1 << 18) - 1):
            yield data
            start += len(data)

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """The last bytes."""
        start = max(0, self.size() - max_bytes)
        return start, b"".join(self.read(start))

    def size(self) -> int:
        """How many bytes there are."""
        return int(self._client.strlen(self._names[0]))

    def cut(self, offset: int, epoch: int) -> None:
        """Set a torn end aside and remove it, in one script."""
        whole = b"".join(self.read())
        if whole[offset:]:
            name = f"quarantine/torn-{offset}-{_etag(whole[offset:])[:8]}"
            self._rewrite(whole[:offset], epoch, name, whole[offset:], 0)

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Another log in the place of the old one, which is set aside, in one script."""
        new, old = b"".join(chunks), self._client.get(self._names[0])
        name = "" if old is None else f"quarantine/generation-{self.generation()}"
        self._rewrite(new, epoch, name, old or b"", 1)

    def generation(self) -> str:
        """How often the log was replaced."""
        if not self._client.exists(self._names[0]):
            return ""
        return str((self._client.hget(self._names[1], "generation") or b"").decode())

    def unsaved(self) -> bytes:
        """No tool calls are waiting."""
        return b""

    def close(self) -> None:
        """Nothing is held open."""

    def _rewrite(self, new: bytes, epoch: int, aside: str, old: bytes, more: int) -> None:
        values = (epoch, new, _now(), aside, old, more)
        self._check(self._client.eval(_REPLACE, 4, *self._names, *values))

    def _check(self, answer: bytes) -> None:
        if answer == b"fenced":
            session_id = self._key.rpartition("/")[2]
            raise Fenced(f"another writer has taken {session_id} over", session_id=session_id)


class RedisDocuments(Documents):
    """One hash."""

    def __init__(self, store: RedisStore, key: str) -> None:
        self._client = store.client
        self._names = store.names(key)

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Compared and replaced in one script."""
        check_document_name(name)
        wanted = "*" if if_match is None else if_match
        values = (name, bytes(data), wanted)
        answer, etag = self._client.eval(_PUT, 4, *self._names, *values)
        if answer == b"conflict":
            raise Conflict(f"{name} is not what it was", etag=etag.decode())
        return _etag(data)

    def get(self, name: str) -> tuple[bytes, str] | None:
        """The bytes and their mark."""
        data = self._client.hget(self._names[2], check_document_name(name))
        return None if data is None else (data, _etag(data))

    def names(self, prefix: str = "") -> list[str]:
        """The names, sorted."""
        found = (name.decode() for name in self._client.hkeys(self._names[2]))
        return sorted(name for name in found if name.startswith(prefix))

    def delete(self, name: str) -> bool:
        """Remove one."""
        return bool(self._client.hdel(self._names[2], check_document_name(name)))


class RedisLease(Lease):
    """One hash; its time runs by the server's clock."""

    def __init__(self, store: RedisStore, key: str) -> None:
        self._client = store.client
        self._names = store.names(key)
        self._key = key
        self._holder = uuid4().hex

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take it, also from one whose time ran out."""
        epoch = int(self._client.eval(_ACQUIRE, 4, *self._names, self._holder, ttl_ms))
        if epoch < 0:
            raise _locked(self._key)
        return epoch

    def renew(self, ttl_ms: int) -> None:
        """Put off its end."""
        if (self._client.hget(self._names[3], "holder") or b"").decode() != self._holder:
            raise Fenced("the lease is lost", session_id=self._key.rpartition("/")[2])
        self.acquire("", ttl_ms)

    def release(self) -> None:
        """Give it back, unless another one has it by now."""
        self._client.eval(_RELEASE, 4, *self._names, self._holder)


def _locked(key: str) -> Locked:
    session_id = key.rpartition("/")[2]
    return Locked(f"{session_id} is held by another writer", session_id=session_id)


def _etag(data: bytes) -> str:
    # As Redis itself can compute it inside a script.
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000_000


def main(url: str = "redis://localhost:6379/0") -> None:
    """Record a conversation, and go on with it."""
    with holdfast.open(RedisStore(url, "my-app")) as hf, hf.session("trip-planner") as s:
        print("restored:", s.restored)
        s.user("My name is Alice")
        s.assistant("Hello Alice")
        print([turn["content"] for turn in s.history])


if __name__ == "__main__":
    import sys

    try:
        main(*sys.argv[1:])
    except redis.ConnectionError as error:
        sys.exit(f"This needs a Redis; give its URL as the argument. {error}")
