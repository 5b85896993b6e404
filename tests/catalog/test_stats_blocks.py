"""Statistics from kept sums are those of a count over every session."""

from __future__ import annotations

import random
import sqlite3

import msgspec
import pytest

import holdfast
from holdfast.catalog import Calendar, Prices
from holdfast.catalog._stats import Counter, Wanted, count_index
from holdfast.catalog.sqlite import rows

BEGIN = 1_760_000_000_000
HOUR = 3_600_000
WANTED = (
    {},
    {"by": "week"},
    {"by": "month", "since": BEGIN + 40 * HOUR},
    {"since": BEGIN + 30 * HOUR, "until": BEGIN + 200 * HOUR},
    {"until": BEGIN - 1},
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of four rows, so that a few sessions make several."""
    monkeypatch.setattr(rows, "_BLOCK_SHIFT", 2)


def record(hf, number, rng):
    """A session that lasts for some hours."""
    now = [BEGIN + rng.randrange(300) * HOUR]
    options = {"agent_id": rng.choice(("bot", "cook")), "clock": lambda: now[0]}
    with hf.session(f"s{number}", autosave_ms=0, snapshot_ms=0, **options) as session:
        if rng.random() < 0.7:
            session.tag(*rng.sample(("x", "y", "z"), rng.randrange(1, 3)))
        for _ in range(rng.randrange(4)):
            session.user("a question about python tests")
            now[0] += rng.choice((1_000, HOUR, 30 * HOUR))
            usage = {"input_tokens": rng.randrange(9000), "output_tokens": 70}
            session.assistant("so", usage=usage, model=rng.choice(("gpt-4o", "unheard-of")))


def told(stats):
    """The figures; sums of floats up to their rounding."""
    found = msgspec.to_builtins(stats)
    return _rounded(found)


def _rounded(value):
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def both(hf, tz="Europe/Zurich"):
    """Each question answered by sums and by a count."""
    catalog, prices = hf._core.catalog, Prices()
    for wanted in (Wanted(**one) for one in WANTED):
        for auto_tags in (True, False):

            def ask(index, wanted=wanted, auto_tags=auto_tags):
                calendar = Calendar(tz)
                counter = Counter(wanted, prices, calendar)
                for meta, tally in index.tallies():
                    counter.add(meta if auto_tags else msgspec.structs.replace(meta, auto_tags=()), tally)
                return count_index(index, wanted, prices, calendar, auto_tags=auto_tags), counter.stats()

            kept, counted = catalog.answer(ask)
            assert told(kept) == told(counted)
    return kept


def test_sums_are_what_counting_gives(store_root):
    """For every period and window, after sessions came, went on and were deleted."""
    rng = random.Random(3)
    with holdfast.open(store_root) as hf:
        both(hf)
        for number in range(22):
            record(hf, number, rng)
        both(hf)
        both(hf, "America/New_York")
        record(hf, 3, rng)
        both(hf)
        hf.delete("s9")
        hf.delete("s21")
        both(hf)
        count = hf.stats().sessions
        assert count == len(hf.list(None))
        hf.undelete("s9")
        assert hf.stats().sessions == count + 1


@pytest.mark.req("S2-90")
def test_only_what_changed_is_counted_again(store_root, monkeypatch):
    """Asking again reads no tally; a session that went on costs its block."""
    from holdfast.catalog.sqlite.index import SqliteIndex

    rng, read = random.Random(4), []
    real = SqliteIndex.tallies

    def tallies(self, block=None):
        read.append(block)
        return real(self, block)

    monkeypatch.setattr(SqliteIndex, "tallies", tallies)
    with holdfast.open(store_root) as hf:
        for number in range(12):
            record(hf, number, rng)
        hf.stats()
        assert None not in read
        assert len(read) > 2
        read.clear()
        hf.stats(by="month")
        assert read == []
        record(hf, 5, rng)
        hf.stats()
        assert len(read) == 1
    with holdfast.open(store_root) as hf:
        read.clear()
        hf.stats()
        assert read == []


def test_making_anew_adds_up_as_well(store_root, monkeypatch):
    """After a reindex the first question is answered by sums."""
    from holdfast.catalog.sqlite.index import SqliteIndex

    with holdfast.open(store_root) as hf:
        record(hf, 1, random.Random(1))
        hf.reindex()
        monkeypatch.setattr(SqliteIndex, "tallies", lambda *_: pytest.fail("counted again"))
        assert hf.stats().sessions == 1


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE figures SET data = x'00' WHERE block = 1",
        "UPDATE figures SET data = CAST(data AS TEXT) WHERE block = 1",
        "UPDATE figures SET block = block + 100",
        "DELETE FROM figures WHERE block = 1",
        "UPDATE figures SET variant = 'other'",
        "DROP TABLE figures",
    ],
)
def test_harmed_sums_are_made_anew(store_root, harm):
    """Whatever happened to them, the figures are right."""
    rng = random.Random(5)
    with holdfast.open(store_root) as hf:
        for number in range(12):
            record(hf, number, rng)
        before = told(hf.stats())
    connection = sqlite3.connect(store_root / "catalog.db")
    connection.execute(harm)
    connection.commit()
    connection.close()
    with holdfast.open(store_root) as hf:
        assert told(hf.stats()) == before


def test_sums_nobody_asks_for_are_let_go(store_root):
    """Many time zones do not fill the index."""
    with holdfast.open(store_root) as hf:
        record(hf, 1, random.Random(1))
        for hours in range(-12, 12):
            hf.stats(tz=f"Etc/GMT{hours:+d}")
        query = "SELECT count(DISTINCT variant) FROM figures"
        assert hf._core.catalog.answer(lambda index: index.connection.execute(query).fetchone()[0]) <= 6


def test_a_write_while_sums_are_read_is_not_mixed_in(store_root):
    """What another process writes meanwhile counts next time; nothing is taken for damage."""
    rng = random.Random(6)
    with holdfast.open(store_root) as hf, holdfast.open(store_root) as other:
        for number in range(8):
            record(hf, number, rng)
        assert hf.stats().sessions == 8

        def ask(index):
            with index.figures("v", lambda _: b"made") as blocks:
                count = index.count()
                record(other, 99, rng)
                other.list()
                assert index.count() == count
                return [data for _, data in blocks]

        assert set(hf._core.catalog.answer(ask)) == {b"made"}
        assert hf.stats().sessions == 9
        assert hf.catalog_health().mended == 0
