"""What is packed on its way to a PostgreSQL server, and that it comes back as it was."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage._deferred import Packet
from holdfast.storage._pieces import unpacked
from holdfast.storage.postgres.sender import _compressor, _outcome, pack
from holdfast.storage.postgres.store import PostgresStore

KEY = "sessions/a"
_WORDS = b'{"seq":7,"type":"assistant","data":{"content":"The tests of the order pass again."}}\n'


def _lines(size):
    return (_WORDS * (size // len(_WORDS) + 1))[: size - 1] + b"\n"


def _noise(size):
    return random.Random(size).randbytes(size)


@given(st.integers(0, 2_100), st.sampled_from([_lines, _noise]), st.binary(max_size=300))
def test_what_is_packed_comes_back_as_it_was(size, kind, end):
    """Of any length and kind, and it is shorter; what is not packed is left alone."""
    data = kind(max(1, size)) + end
    stored, is_packed = pack(data)
    assert (unpacked(stored, len(data)) if is_packed else stored) == data
    assert len(stored) < len(data) if is_packed else stored is data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (_lines(999), False),
        (_lines(1_000), True),
        (_lines(1_960), True),
        (_lines(1_961), False),
        (_noise(1_500), False),
    ],
)
def test_only_what_the_server_leaves_as_it_is_gets_packed(data, expected):
    """Neither what is short, nor what the server compresses, nor what cannot be made shorter."""
    assert pack(data)[1] is expected


def test_one_that_broke_off_is_replaced():
    """A compressor in the middle of a frame would put that before the next piece."""
    before = _compressor()
    before.compress(b"half of something", before.CONTINUE)
    data = _lines(1_500)
    stored, is_packed = pack(data)
    assert is_packed
    assert unpacked(stored, len(data)) == data
    assert _compressor() is not before


def test_threads_have_one_each():
    """Two that pack at once are not in each other's frames."""
    found = []
    thread = threading.Thread(target=lambda: found.append(_compressor()))
    thread.start()
    thread.join(60)
    assert found
    assert found[0] is not _compressor()


@pytest.fixture
def store(postgres_url):
    """A store that works, and is closed in the end."""
    made = PostgresStore(postgres_url)
    yield made
    made.close()


def test_a_log_of_packed_and_plain_pieces_reads_as_one(store):
    """From any place, cut, copied, archived and back."""
    lines = [_lines(size) for size in (1_100, 40, 1_500, 2_500, 1_001, 999)]
    epoch = store.lease(KEY).acquire("me", 600_000)
    log, whole = store.log(KEY), b"".join(lines)
    for number, line in enumerate(lines):
        log.append(line, number, 1, epoch)
        log.sync()
    packed = [row["packed"] for row in store.link.fetch("SELECT packed FROM pieces ORDER BY start")]
    assert packed == [True, False, True, False, True, False]
    for start in range(0, len(whole) + 1, 101):
        assert b"".join(log.read(start)) == whole[start:]
    store.branch(KEY, "sessions/b", len(whole) - 999)
    assert b"".join(store.log("sessions/b").read()) == whole[:-999]
    store.archive("sessions/b")
    store.unarchive("sessions/b")
    assert b"".join(store.log("sessions/b").read()) == whole[:-999]
    log.cut(1_100 + 40 + 700, epoch)
    assert b"".join(store.log(KEY).read()) == whole[:1_840]


def test_the_outcome_of_a_packed_piece_is_found(store):
    """Sent again after a connection broke, it is known to be there; another one is not."""
    epoch = store.lease(KEY).acquire("me", 600_000)
    log, line = store.log(KEY), _lines(1_200)
    log.append(line, 0, 1, epoch)
    log.sync()

    def outcome(data):
        packet = Packet(KEY, epoch, 0, data)
        return store.link.run(lambda connection: _outcome(connection, packet))

    assert outcome(line) is None
    assert outcome(line.upper()) is not None


def test_sessions_that_are_sent_together_are_packed_too(store):
    """One statement for many logs packs what is worth it, each by itself."""
    logs = {}
    for number in range(6):
        key = f"sessions/{number}"
        epoch = store.lease(key).acquire("me", 600_000)
        logs[key] = store.log(key)
        logs[key].append(_lines(900 + 100 * number), 0, 1, epoch)
    store.sync(logs).result(120)
    for number, log in enumerate(logs.values()):
        assert b"".join(store.log(log.key).read()) == _lines(900 + 100 * number)
    rows = store.link.fetch("SELECT size, packed FROM pieces")
    assert {row["size"] for row in rows if row["packed"]} == {1_000, 1_100, 1_200, 1_300, 1_400}
