"""An index that lies is found by the next comparison with the logs, and made anew."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.catalog import Asked, _catalog, scan_logs

WORDS = ["".join(random.Random(n).choices("abcdefghij", k=5)) for n in range(40)]


def fill(hf, sessions=24, events=8):
    """Record sessions of two agents, some with a tag, all with words from a few."""
    source = random.Random(3)
    for number in range(sessions):
        with hf.session(f"s{number:03d}", agent_id=f"agent{number % 2}") as s:
            if number % 5 == 0:
                s.tag("five")
            for _ in range(events):
                s.user(" ".join(source.choices(WORDS, k=20)))
                call = s.tool_call("Read", {"path": source.choice(WORDS)})
                s.tool_result(call, " ".join(source.choices(WORDS, k=20)))


def answers(hf):
    """What lists and searches say."""
    said = [sorted((hit.session_id, hit.seq) for hit in hf.search(word, limit=None)) for word in WORDS[:4]]
    said.append(sorted((hit.session_id, hit.seq) for hit in hf.search(WORDS[5], tool="Read")))
    lists = [
        hf.list(10),
        hf.list(10, tags=["five"]),
        hf.list(10, agent_id="agent1"),
        hf.list(10, status="idle"),
        hf.list(None),
    ]
    return said, [[meta.session_id for meta in page] for page in lists]


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A store with an index that is whole and at rest: its place and what it answers."""
    root = tmp_path_factory.mktemp("audit") / "store"
    with holdfast.open(root) as hf:
        fill(hf)
        # Of what was changed a moment ago all is listed again, which would hide what is missed.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("holdfast.storage.files.journal._TIME_GRAIN_NS", 0)
            expected = answers(hf)
        metas = hf.list(None)
        for word, found in zip(WORDS, expected[0][:4], strict=False):
            scanned = scan_logs(hf.store, metas, Asked(query=word, limit=None))
            assert found == sorted((hit.session_id, hit.seq) for hit in scanned)
    return root, Path(root, "catalog.db").read_bytes(), expected


def put_back(root, data):
    """Give the store this index, and nothing beside it."""
    for suffix in ("-wal", "-shm"):
        Path(root, f"catalog.db{suffix}").unlink(missing_ok=True)
    Path(root, "catalog.db").write_bytes(data)


def flip_some(data, source):
    """The same bytes but for one bit, or for a few."""
    flipped = bytearray(data)
    for _ in range(source.choice([1, 1, 3])):
        flipped[source.randrange(len(flipped))] ^= 1 << source.randrange(8)
    return bytes(flipped)


def try_flips(full, seed, trials):
    """Flip, check, ask, compare; and again."""
    root, data, expected = full
    source = random.Random(seed)
    for _ in range(trials):
        put_back(root, flip_some(data, source))
        with holdfast.open(root) as hf:
            hf.catalog_health(check=True)
            assert answers(hf) == expected


@pytest.mark.req("C09")
def test_a_few_flipped_bits(full):
    """Wherever bits of the index are flipped, after a check lists and searches are as without."""
    try_flips(full, 1, 8)


@pytest.mark.slow
def test_many_flipped_bits(full):
    """The same, many times."""
    try_flips(full, 2, 80)


def tamper(root, statement):
    """Change the index behind its back."""
    with closing(sqlite3.connect(Path(root, "catalog.db"))) as connection, connection:
        connection.execute(statement)


TAMPERINGS = (
    "DELETE FROM said WHERE id = 7",
    "UPDATE said SET seq = seq + 1 WHERE id = 9",
    "UPDATE said SET session = 3 WHERE session = 2",
    "UPDATE said SET role = 1 WHERE role = 0",
    "UPDATE said SET tool = 5",
    "UPDATE said SET name = 'Rood'",
    "DELETE FROM said",
    "UPDATE said SET time = time + 1 WHERE id = 9",
    "INSERT INTO labels SELECT x'66697665', updated, id, row FROM sessions WHERE id = 's001'",
    "DELETE FROM said_words_idx WHERE segid = (SELECT min(segid) FROM said_words_idx)",
    "UPDATE said_words_idx SET pgno = pgno + 2",
    "DELETE FROM said_words_data WHERE id > 10",
    "UPDATE said_words_data SET block = zeroblob(length(block)) WHERE id > 10",
    "UPDATE said_words_data SET block = 'text' WHERE id = 10",
    "UPDATE said_words_docsize SET id = id + (1 << 40) WHERE id > 300",
    "UPDATE said SET id = -id WHERE id = 5",
    "UPDATE labels SET tag = x'00' WHERE tag = x'66697665'",
    "DELETE FROM labels",
    "UPDATE sessions SET agent = NULL WHERE id = 's001'",
    "UPDATE sessions SET status = 'waiting' WHERE id = 's001'",
    "UPDATE sessions SET updated = updated - 9999999 WHERE id = 's023'",
    "DELETE FROM sessions WHERE id = 's020'",
)


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_rows_that_others_changed(full, tampering):
    """Rows that are well-formed but not as they were written are noticed, and mended."""
    root, data, expected = full
    put_back(root, data)
    tamper(root, tampering)
    with holdfast.open(root) as hf:
        assert hf.catalog_health(check=True).mended == 1
        assert answers(hf) == expected


@pytest.fixture
def due(monkeypatch):
    """A comparison is due at once, and after each."""
    monkeypatch.setattr(_catalog, "_AUDIT_EVERY_MS", 0)
    monkeypatch.setattr(_catalog, "_AUDIT_LOOK_S", 0.0)


@pytest.mark.parametrize("tampering", ["DELETE FROM said WHERE id = 7", "DELETE FROM labels"])
def test_the_background_finds_it(full, due, tampering):
    """While a session is open and nothing is said, the thread that feeds the index goes over it."""
    root, data, expected = full
    put_back(root, data)
    with holdfast.open(root) as hf:
        hf.list(1)
        hf._core.feeder._tick_s = 0.01
        session = hf.session("s003")
        try:
            tamper(root, tampering)
            until = time.monotonic() + 60
            while not hf._core.catalog._mended and time.monotonic() < until:
                time.sleep(0.01)
            assert hf._core.catalog._mended
        finally:
            session.close()
        assert answers(hf)[0] == expected[0]


def test_a_pass_is_made_in_small_pieces(full, due):
    """Each takes little, and they go on where the last one stopped."""
    root, data, expected = full
    put_back(root, data)
    tamper(root, "DELETE FROM said WHERE id = (SELECT max(id) FROM said)")
    with holdfast.open(root) as hf:
        hf.list(1)
        pieces = 0
        while not hf._core.catalog._mended:
            hf._core.catalog.audit_some(0.0)
            pieces += 1
            assert pieces < 1000
        assert pieces > 10
        assert answers(hf) == expected


def test_a_pass_is_for_all_processes(full, monkeypatch):
    """One that began an hour ago is enough for everybody."""
    root, data, _ = full
    put_back(root, data)
    with holdfast.open(root) as hf, holdfast.open(root) as other:
        hf.list(1), other.list(1)
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + 3_600_001 * 10**6)
        assert hf._core.catalog._is_audit_due()
        assert not other._core.catalog._is_audit_due()


def test_a_session_without_a_row_is_read(full):
    """If only the logs know a session, a check lets the index know it as well."""
    root, data, expected = full
    put_back(root, data)
    with holdfast.open(root) as hf:
        hf._core.catalog.answer(lambda index: index.write([], ["s007"]))
        hf.catalog_health(check=True)
        assert answers(hf) == expected


def is_whole(hf):
    """Whether a check finds nothing."""
    return hf.catalog_health(check=True).mended == 0


def test_no_change_is_taken_for_a_lie(tmp_path):
    """What is added, streamed, retracted, tagged, titled or deleted leaves the index whole."""
    with holdfast.open(tmp_path) as hf:
        assert is_whole(hf)
        fill(hf, 6, 3)
        assert is_whole(hf)
        with hf.session("s001") as s:
            s.tag("other")
            s.user("more words")
            assert is_whole(hf)
            s.append("delta", {"content": "half of it"})
            assert is_whole(hf)
            s.assistant("all of it")
            s.untag("other")
            s.append("retracted", {"seqs": [3]})
            assert is_whole(hf)
        hf.title("s002", "another title")
        hf.delete("s000")
        assert is_whole(hf)
        hf.reindex()
        assert is_whole(hf)


SAID = st.one_of(
    st.tuples(st.just("user"), st.text(max_size=40)),
    st.tuples(st.just("user"), st.sampled_from(["x" * 40_000, "é" * 20_000, "漢字" * 9_000])),
    st.tuples(st.just("delta"), st.text(max_size=9)),
    st.tuples(st.just("assistant"), st.text(max_size=20)),
    st.tuples(st.just("retracted"), st.integers(0, 20)),
    st.tuples(st.just("tag"), st.sampled_from("abc")),
    st.tuples(st.just("untag"), st.sampled_from("abc")),
    st.tuples(st.just("list"), st.none()),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SAID, max_size=15))
def test_what_was_fed_in_pieces_is_what_the_log_says(steps):
    """However a log was read into the index, the comparison with all of it finds no difference."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        with holdfast.open(root) as hf:
            with hf.session("s") as s:
                for kind, value in steps:
                    if kind == "list":
                        hf.list(1)
                    elif kind in ("tag", "untag"):
                        getattr(s, kind)(value)
                    elif kind == "retracted":
                        s.append("retracted", {"seqs": [value]})
                    else:
                        s.append(kind, {"content": value})
                    s.flush()
            assert is_whole(hf)


def test_what_a_session_goes_on_from_is_verified(full):
    """What is kept of an unfinished session for the search is as it was written, or is not used."""
    root, data, _ = full
    put_back(root, data)
    tamper(root, "UPDATE said_listeners SET listener = x'00'")
    with holdfast.open(root) as hf:
        with hf.session("s003") as s:
            s.user("xylophone")
        assert [hit.session_id for hit in hf.search("xylophone")] == ["s003"]
        assert hf.catalog_health().mended == 1


def test_what_was_read_is_remembered_while_the_log_is_the_same(tmp_path, monkeypatch):
    """A search reads a log that is at rest once; after a change it reads it again."""
    with holdfast.open(tmp_path) as hf:
        with hf.session("s") as s:
            s.user("an honest word")
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + 10**10)
        assert len(hf.search("honest")) == 1
        reads = []
        log_of = hf.store.log
        monkeypatch.setattr(hf.store, "log", lambda key: reads.append(key) or log_of(key))
        assert hf.search("honest")[0].snippet.text == "an honest word"
        assert not reads
        log = Path(hf.location("s"), "events.jsonl")
        log.write_bytes(log.read_bytes().replace(b"honest", b"h0nest"))
        assert hf.search("honest") == []
        assert reads
