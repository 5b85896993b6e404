"""``holdfast prune`` and ``holdfast archive``."""

from __future__ import annotations

import json
import time

import pytest

DAY_MS = 86_400_000


@pytest.fixture
def sessions(library):
    """Three sessions: of today, of last month, and of last year, which is tagged keep."""
    for name, days in (("new", 0), ("older", 40), ("oldest", 400)):
        then = int(time.time() * 1000) - days * DAY_MS
        with library.session(name, title=f"About {name}", clock=lambda then=then: then) as s:
            s.user("hello " * 50)
            if name == "oldest":
                s.tag("keep")
    return library


def test_a_dry_run_names_what_would_go_why_and_what_stays(run, sessions):
    """The plan is told session by session, and nothing is done."""
    result = run("prune", "--dry-run", "--older-than", "30d")
    assert result.code == 0
    lines = result.out.splitlines()
    assert any(line.startswith("archive  older") and "over 30" in line for line in lines)
    assert "kept     oldest  it is tagged keep" in lines
    assert lines[-1] == "Would be: 1 session archived."
    assert not sessions.info("older").archived


def test_a_rule_of_the_command_line_is_carried_out(run, sessions):
    """Without --dry-run it is done."""
    result = run("prune", "--older-than", "30d", "--delete", "--yes")
    assert result.out.splitlines()[-1] == "1 session moved to the trash."
    assert [one.session_id for one in sessions.trash.list()] == ["older"]


def test_prune_as_data(run, sessions):
    """--json has every decision with its reason."""
    found = json.loads(run("prune", "-n", "--keep", "1", "--json").out)
    assert found["dry_run"] is True
    assert [one["session_id"] for one in found["decisions"]] == ["older"]
    assert found["decisions"][0]["why"] == "beyond the newest 1"


def test_nothing_to_prune_is_told(run, sessions):
    """Where no policy lets anything go, that is said."""
    assert run("prune").out == "Nothing to prune.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tag", "x"], "--older-than, --keep or --size"),
        (["--delete"], "--older-than, --keep or --size"),
        (["--older-than", "soon"], "is no age"),
        (["--size", "big"], "is no size"),
    ],
)
def test_a_rule_that_makes_no_sense_is_wrong_usage(run, sessions, arguments, said):
    """The mistake is told, with exit code 2, before anything is done."""
    result = run("prune", *arguments)
    assert result.code == 2
    assert said in result.err


def test_what_could_not_be_done_is_told_and_gives_exit_code_1(run, sessions, monkeypatch):
    """One session that fails does not keep the others, and is named."""
    from holdfast.errors import StoreFull
    from holdfast.storage import FileStore

    def archive(self, key):
        raise StoreFull("no room left")

    monkeypatch.setattr(FileStore, "archive", archive)
    result = run("prune", "--older-than", "30d")
    assert result.code == 1
    assert "older  no room left" in result.err


def test_long_plans_are_cut_on_screen(run, library, monkeypatch):
    """A plan of more rows than anyone reads is cut, and says how to see all of it."""
    monkeypatch.setattr("holdfast.apps.cli.trash._SHOWN_MAX", 1)
    for name in "abc":
        with library.session(name) as s:
            s.user("x")
    result = run("prune", "-n", "--keep", "0")
    assert "and 2 more sessions; use --json to show all" in result.err
    assert result.out.splitlines()[-1] == "Would be: 3 sessions archived."


def test_archive_and_restore(run, sessions):
    """A session goes into the archive and out of it, and stays readable in between."""
    before = run("show", "older").out
    assert run("archive", "older").out.startswith("archived older  a log of ")
    assert sessions.info("older").archived
    assert run("show", "older").out == before
    assert run("archive", "older", "--restore").out.startswith("restored older")
    assert not sessions.info("older").archived
    assert run("archive", "nothing").code == 3
