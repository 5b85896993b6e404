"""``holdfast list --trash``, and which session ``holdfast undelete`` means."""

from __future__ import annotations

import json

import jsonschema
import pytest

from holdfast.apps.cli.schema import schema_of


@pytest.fixture
def trash(library, trip):
    """Two deleted sessions: the one that was deleted last was changed before the other."""
    with library.session("early", title="Was \x1b[31mred") as s:
        s.user("x")
    with library.session(trip) as s:
        s.user("and then")
    library.delete(trip)
    library.delete("early")
    note = library.store.documents("trash/0.early")
    at = json.loads(note.get("deleted.json")[0])["at"]
    note.put("deleted.json", json.dumps({"id": "early", "at": at + 1, "title": "Was red"}).encode())
    return ["early", trip]


def test_the_trash_is_listed(run, trash):
    """With titles, the last deleted first."""
    outcome = run("list", "--trash")
    assert (outcome.code, outcome.err) == (0, "")
    header, *rows = outcome.out.splitlines()
    assert header.split() == ["ID", "DELETED", "TITLE", "SIZE"]
    assert [row.split()[0] for row in rows] == trash
    assert "Trip to Lisbon" in rows[1]
    assert len(run("list", "--trash", "--limit", "1").out.splitlines()) == 2
    assert run("list").out == ""


def test_the_trash_as_json(run, trash):
    """As its schema says."""
    found = json.loads(run("list", "--trash", "--json").out)
    jsonschema.validate(found, schema_of("list-trash"))
    assert [one["session_id"] for one in found["sessions"]] == trash
    assert found["sessions"][1]["title"] == "Trip to Lisbon"
    assert found["sessions"][1]["size_bytes"] > 0


def test_an_empty_trash_says_so(run, trip):
    """And prints nothing that a program could take for a session."""
    outcome = run("list", "--trash")
    assert (outcome.code, outcome.out) == (0, "")
    assert "is empty" in outcome.err
    assert json.loads(run("list", "--trash", "--json").out) == {"sessions": []}


@pytest.mark.parametrize("more", [["--tag", "x"], ["--tree"], ["text"], ["--sort", "cost"]])
def test_what_the_trash_is_not_asked_for_is_refused(run, more):
    """Rather than passed over."""
    outcome = run("list", "--trash", *more)
    assert outcome.code == 2
    assert "--trash can only be combined" in outcome.err


def test_the_one_deleted_last_comes_back(run, trash):
    """Whichever was changed last; then the other one."""
    assert run("undelete", "-").out == "restored early\n"
    assert run("undelete", "-").out == f"restored {trash[1]}\n"


def test_an_id_too_long_for_the_trash_comes_back_whole(run, library):
    """By all of it, or by how it begins."""
    long = "x" * 128
    with library.session(long) as s:
        s.user("hello")
    for given in (long, "xxx"):
        library.delete(long)
        assert f"\n{long[:7]} " in run("list", "--trash").out
        assert long in run("list", "--trash", "--json").out
        assert run("undelete", given).out == f"restored {long[:7]}\n"
        assert library.exists(long)


def test_a_terminal_is_told_how_one_comes_back(tty, trash):
    """And how many are not shown."""
    shown = tty("list", "--trash", "--limit", "1").out
    assert "early" in shown
    assert "and 1 session deleted earlier" in shown
    assert "holdfast undelete ID" in shown
