"""``holdfast verify``, ``repair``, ``delete`` and ``undelete``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.apps.cli.checks import _explain
from holdfast.model import Gap


def test_a_whole_session(run, trip, untouched):
    """A whole session is said to be whole, with exit code 0."""
    outcome = run("verify", trip)
    assert outcome.code == 0
    assert outcome.out.startswith("ok       trip-planner\n")
    assert "Everything is whole." in outcome.out


def test_damage_is_named(run, trip, damaged, untouched):
    """The damaged one of two is named with the event that is lost, and the exit code is 4."""
    outcome = run("verify", trip, damaged)
    assert outcome.code == 4
    assert "damaged  broken" in outcome.out
    assert "event 4 cannot be read" in outcome.out
    assert "holdfast repair broken" in outcome.out


def test_all(run, trip, damaged):
    """--all tells the damaged ones in full and counts the rest."""
    outcome = run("verify", "--all")
    assert outcome.code == 4
    assert outcome.out.splitlines()[-1] == "1 session whole, 1 damaged"
    assert "trip-planner" not in outcome.out


def test_all_of_an_empty_store(run):
    """Nothing to verify is nothing damaged."""
    assert run("verify", "--all").code == 0


def test_verify_json(run, damaged):
    """--json has a report for each session."""
    outcome = run("verify", damaged, "--json")
    (report,) = json.loads(outcome.out)["reports"]
    assert outcome.code == 4
    assert (report["ok"], report["lost_events"]) == (False, 1)
    assert report["gaps"][0]["first_seq"] == report["gaps"][0]["last_seq"] == 4
    assert any("event 4" in sentence for sentence in report["explanation"])


def test_a_torn_tail_is_no_damage(run, trip, library):
    """An unfinished last line is told, and is fine."""
    log = Path(library.location(trip)) / "events.jsonl"
    with log.open("ab") as stream:
        stream.write(b'{"seq":11,"type":"us')
    outcome = run("verify", trip)
    assert outcome.code == 0
    assert "unfinished write" in outcome.out


@pytest.mark.parametrize("arguments", [[], ["--all", "x"]])
def test_what_to_verify_must_be_said(run, arguments):
    """Neither nothing nor everything and something."""
    assert run("verify", *arguments).code == 2


def test_a_newer_format_cannot_be_judged(run, too_new, untouched):
    """Verifying says that the session is of a newer format, with exit code 4, also with --all."""
    for arguments in (["verify", too_new], ["verify", "--all"]):
        outcome = run(*arguments)
        assert outcome.code == 4
        assert "format 99" in outcome.out


def test_repair(run, damaged, library):
    """Repair says what is lost and where the old bytes are; afterwards the session goes on."""
    old = (Path(library.location(damaged)) / "events.jsonl").read_bytes()
    outcome = run("repair", damaged)
    assert outcome.code == 0
    assert "repaired broken: 1 event lost" in outcome.out
    assert "Event 4 is lost" in outcome.out
    folder = Path(outcome.out.splitlines()[-1].rpartition(" in ")[2])
    assert [file.read_bytes() for file in folder.iterdir()] == [old]
    assert run("verify", damaged).code == 0
    with library.session(damaged) as s:
        s.user("going on")


def test_nothing_to_repair(run, trip, library):
    """A whole session is left alone, and that is said."""
    log = Path(library.location(trip)) / "events.jsonl"
    before = log.read_bytes()
    outcome = run("repair", trip)
    assert outcome.code == 0
    assert "nothing to repair" in outcome.out
    assert log.read_bytes() == before
    assert json.loads(run("repair", trip, "--json").out) == {"session_id": trip, "gaps": [], "quarantine": None}


def test_a_newer_format_is_not_repaired(run, too_new, untouched):
    """A log that this version does not understand is not rewritten, damaged or not."""
    outcome = run("repair", too_new)
    assert outcome.code == 4
    assert "newer" in outcome.err


@pytest.mark.req("S2-30")
def test_delete_and_undelete(run, trip, library):
    """A deleted session is gone from the list and comes back whole."""
    before = [event.seq for event in library.events(trip)]
    assert run("delete", "trip").out == "deleted trip-planner\n"
    assert not library.exists(trip)
    assert run("show", trip).code == 3
    assert run("undelete", "tri").out == "restored trip-planner\n"
    assert [event.seq for event in library.events(trip)] == before


def test_several_at_once(run, trip, damaged, library):
    """Several sessions can be named; if one is not there, none is deleted."""
    assert run("delete", trip, "no-such").code == 3
    assert library.exists(trip)
    assert run("delete", trip, damaged, trip).out.count("deleted") == 2


def test_the_last_deleted(run, trip, damaged, library):
    """`undelete -` brings back something that was deleted."""
    run("delete", damaged)
    assert run("undelete", "-").out == "restored broken\n"


def test_undelete_what_was_not_deleted(run, trip):
    """A session that is not in the trash is not found there."""
    outcome = run("undelete", trip)
    assert outcome.code == 3
    assert "trash" in outcome.err


def test_an_id_that_was_taken_meanwhile(run, trip, library):
    """Undelete does not touch a new session of the same id."""
    run("delete", trip)
    with library.session(trip, title="Another") as s:
        s.user("x")
    outcome = run("undelete", trip)
    assert outcome.code == 1
    assert "taken" in outcome.err
    assert library.info(trip).title == "Another"


HOLDER = """
import sys, holdfast
s = holdfast.open(sys.argv[1]).session(sys.argv[2])
print("open", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def held(trip, store_root):
    """The session while another process has it open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store_root), trip], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"open\n"
        yield process.pid
        process.communicate(b"\n")


@pytest.mark.parametrize("verb", ["delete", "repair"])
def test_a_session_in_use_is_refused(run, held, trip, verb):
    """What another process has open is neither deleted nor repaired, and the holder is named."""
    outcome = run(verb, trip)
    assert outcome.code == 4
    assert str(held) in outcome.err
    assert run("show", trip).code == 0


@pytest.mark.parametrize(
    ("first", "last", "words"), [(4, 4, "Event 4 is lost"), (4, 6, "Events 4 to 6 are lost"), (5, 4, "none is lost")]
)
def test_what_was_lost_is_said(first, last, words):
    """One event, several, or none: each has its sentence."""
    assert words in _explain(Gap(offset=10, size=20, first_seq=first, last_seq=last))


def test_since(run, trip, library, tmp_path):
    """What grew since passes; a store that was put back, or lost a session, does not."""
    log = Path(library.location(trip)) / "events.jsonl"
    old = log.read_bytes()
    with library.session(trip) as session, library.session("other") as other:
        session.user("one more thing")
        other.user("hello")
    library.close()
    note = tmp_path / "heads.json"
    note.write_text(run("verify", "--all", "--json").out)
    assert run("verify", "--all", "--since", str(note)).code == 0
    log.write_bytes(old)
    outcome = run("verify", "--all", "--since", str(note))
    assert outcome.code == 4
    assert "put back to an earlier state" in " ".join(outcome.out.split())
    assert run("delete", "other", "--yes").code == 0
    assert "other" not in run("verify", "--all", "--since", str(note)).out
    assert run("erase", "other", "--yes").code == 0
    assert "neither there nor in the trash" in run("verify", "--all", "--since", str(note)).out


@pytest.mark.parametrize("content", ["", "[]", '{"reports":[{"session_id":7}]}', "[" * 9_000])
def test_since_something_else(run, trip, tmp_path, content):
    """A file that is no such report is refused in one sentence, and so is one that is not there."""
    note = tmp_path / "heads.json"
    assert run("verify", trip, "--since", str(note)).code == 1
    note.write_text(content)
    outcome = run("verify", trip, "--since", str(note))
    assert outcome.code == 1
    assert "is not what `holdfast verify --json` prints" in outcome.err
