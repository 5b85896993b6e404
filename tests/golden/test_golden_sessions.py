"""Sessions of each format version, opened and gone on with as a user does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.errors import Damaged, HoldfastError, TooNew
from holdfast.model import FORMAT_VERSION, Event, encode_line, line_body

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.glob("v*") if path.is_dir())
WHOLE = ("full", "plain", "plain-then-chained", "steering", "steps")


def placed(root, log):
    """A store with one session that has these bytes; its log."""
    folder = root / "sessions" / "a"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    (folder / "events.jsonl").write_bytes(log)
    (folder / "events.jsonl").chmod(0o600)
    return folder / "events.jsonl"


def golden(version, name):
    return (HERE / version / f"{name}.jsonl").read_bytes()


def test_each_format_version_has_its_sessions():
    """Whoever raises the version of the format adds a folder of golden sessions."""
    assert [f"v{number}" for number in range(1, FORMAT_VERSION + 1)] == VERSIONS


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_session_goes_on_byte_for_byte(store_root, version, name):
    """It opens, has a state and takes more; not one byte that was there is changed."""
    old = golden(version, name)
    place = placed(store_root, old)
    with Holdfast(store_root, timers=False) as hf:
        before = [bytes(event.raw) for event in hf.events("a")]
        hf.state("a")
        with hf.session("a") as session:
            session.user("after an update")
        assert [bytes(event.raw) for event in hf.events("a")][: len(before)] == before
        report = hf.verify("a")
        assert (report.gaps, report.torn_bytes) == ([], 0)
    assert place.read_bytes().startswith(old)


@pytest.mark.parametrize("version", VERSIONS)
def test_old_damage_is_told_and_an_old_torn_tail_set_aside(store_root, version):
    """What is wrong with an old session is treated as in a new one."""
    placed(store_root, golden(version, "damaged"))
    with Holdfast(store_root, timers=False) as hf:
        assert hf.verify("a").gaps
        with pytest.raises(Damaged):
            hf.session("a")
        hf.repair("a")
        assert hf.verify("a").ok
        hf.delete("a")
        placed(store_root, golden(version, "torn"))
        count = len(list(hf.events("a")))
        with hf.session("a") as session:
            session.user("goes on")
        assert len(list(hf.events("a"))) > count
        assert hf.verify("a").ok


def log_of_the_future():
    """Lines that a later version of the same format may write: types and members nobody knows."""
    bodies = [
        line_body(Event.make("session_start", {"format": 1, "log": "0" * 32, "shiny": [1]})),
        line_body(Event.make("hologram", {"depth": {"x": 1e-7, "n": 10**40}}, timestamp=5)),
        b'"type":"user","timestamp":6,"mood":{"b": 1, "a":"\xc3\xbc"},"data":{"content":"x","z":0}',
    ]
    crc, lines = 0, []
    for seq, body in enumerate(bodies):
        line, crc = encode_line(seq, body, crc)
        lines.append(line)
    return b"".join(lines)


def test_events_of_the_future_stay_as_they_are(store_root, tmp_path):
    """An older reader keeps what it does not know, byte for byte, also through fork and archive."""
    log = log_of_the_future()
    place = placed(store_root, log)
    with Holdfast(store_root, timers=False) as hf:
        assert [event.type for event in hf.events("a")] == ["session_start", "hologram", "user"]
        hf.state("a")
        with hf.session("a") as session:
            session.user("of today")
        assert place.read_bytes().startswith(log)
        hf.fork("a", new_id="b")
        hf.archive("a")
        hf.unarchive("a")
        assert place.read_bytes().startswith(log)
        for id in ("a", "b"):
            assert b"".join(hf.store.log(f"sessions/{id}").read()).startswith(log)


@pytest.mark.parametrize("type", ["session_start", "opened"])
def test_a_newer_format_is_refused_and_left_alone(store_root, type):
    """A reader of before reads nothing into it: TooNew, for writing as for repair."""
    first = Event.make("session_start", {"format": 1, "log": "0" * 32})
    newer = Event.make(type, {"format": FORMAT_VERSION + 1, "log": "0" * 32, "epoch": 1})
    crc, lines = 0, []
    for seq, event in enumerate([newer] if type == "session_start" else [first, newer]):
        line, crc = encode_line(seq, line_body(event), crc)
        lines.append(line)
    log = b"".join(lines)
    place = placed(store_root, log)
    with Holdfast(store_root, timers=False) as hf:
        with pytest.raises(TooNew):
            hf.session("a")
        with pytest.raises(HoldfastError):
            hf.session("a", repair="auto")
    assert place.read_bytes() == log


def test_the_page_says_what_an_older_reader_does():
    """The durability page has the promise that is shown here."""
    page = (HERE.parents[1] / "docs" / "internals" / "durability.md").read_text(encoding="utf-8")
    assert re.search(r"D-\d+ \| \*\*Unknown data is kept", page)
