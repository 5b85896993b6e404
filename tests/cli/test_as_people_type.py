"""The command as people type it: short names, mistakes, and questions before what cannot be meant."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture
def two(store_root):
    """Two sessions that have nothing in common."""
    from holdfast import open as open_store

    with open_store(store_root) as hf:
        for id in ("north", "south"):
            with hf.session(id, title=f"To the {id}") as s:
                s.user(f"Go {id}")


def test_ls_is_list(run, two):
    """`ls -n 1` shows the newest."""
    shown = run("ls", "-n", "1", "--columns", "id,title")
    assert shown.out.split("\n")[:2] == ["ID     TITLE", "south  To the south"]


def test_a_column_that_is_not_there(run, two):
    """Is told with those that are."""
    shown = run("list", "--columns", "titel")
    assert shown.code == 2
    assert "did you mean title?" in shown.err


def test_only_failed_ones(run, two):
    """None of these failed."""
    assert "No matching sessions" in run("list", "--failed").err


def test_a_store_that_does_not_exist(run, tmp_path):
    """Is said as such, with the one that is meant, and is not made."""
    (tmp_path / "notes" / "sessions").mkdir(parents=True)
    shown = run("--store", str(tmp_path / "ntoes"), "list")
    assert shown.code == 3
    assert f"Did you mean {tmp_path / 'notes'}?" in shown.err
    assert not (tmp_path / "ntoes").exists()


def test_a_database_that_does_not_exist(run, tmp_path):
    """Is said as such too, and nothing is made beside it."""
    shown = run("--store", f"sqlite://{tmp_path}/none.db", "list")
    assert shown.code == 3
    assert f"there is no store at {tmp_path}/none.db" in shown.err
    assert not list(tmp_path.glob("none*"))


def test_a_title_is_typed_without_quotes(run, two):
    """Its words are joined; an empty one goes back to the words of the user."""
    assert "Far up there" in run("title", "north", "Far", "up", "there").out
    assert "Go north" in run("title", "north", "").out


def test_strangers_are_not_merged_by_mistake(run, two):
    """Sessions without a common event need --yes, and are named in the order in which they were given."""
    refused = run("merge", "north", "south")
    assert refused.code == 2
    assert "have no events in common" in refused.err
    assert run("merge", "north", "south", "--yes", "--id", "both").out.startswith("merged north and south into both")
    assert "  parents   north, south\n" in run("show", "both").out


def test_hits_of_forks_are_shown_once(run, two):
    """A fork shares what was said: one hit, and both are named."""
    run("fork", "north", "--id", "north-again")
    shown = run("search", "Go north").out
    assert shown.count("Go north") == 1
    assert "also in" in shown


@pytest.fixture
def alike(store_root):
    """Three sessions whose ids tell them apart at their ends alone, as imports of some tools have them."""
    from holdfast import open as open_store

    ids = [f"event-folder-critical-illness-claim-claim-00{number}-87c2f3716e91bd3{number}" for number in (1, 2, 3)]
    with open_store(store_root) as hf:
        for id in ids:
            with hf.session(id, title="A claim") as s:
                s.user("Look at it")
    return ids


def test_long_ids_leave_room_for_the_rest_of_a_list(run, alike):
    """Where unique beginnings are longer than a narrow terminal has room for, they are cut in the middle."""
    from holdfast.apps.cli._quick_list import COLUMNS
    from holdfast.apps.render.page import Span, fit

    rows = [[Span("x" * 44), Span("just now"), Span("y" * 70), *map(Span, ("88", "$0.28", "", "", "", "failed"))]]
    kept, widths = fit(list(COLUMNS), rows, 80)
    assert [COLUMNS[index].name for index in kept] == ["ID", "UPDATED", "TITLE", "MSGS", "COST", "STATE"]
    assert sum(widths) + 2 * (len(widths) - 1) <= 80


@pytest.mark.parametrize("typed", ["event-fol…claim-002", "EVENT…002", "event-folder-critical-illness-claim-claim-002"])
def test_an_id_is_taken_as_a_narrow_list_shows_it(run, alike, typed):
    """A beginning and an end with an ellipsis between them mean the short id that a list cut."""
    assert run("title", typed).out == "A claim\n"


def test_an_id_that_several_have(run, alike):
    """Is told with as much of each as tells them apart; so is one that was cut."""
    for typed in ("event", "event…0"):
        shown = run("show", typed)
        assert shown.code == 2
        assert f"{typed} is ambiguous: it matches 3 sessions:" in shown.err
        assert "  event-folder-critical-illness-claim-claim-001\n" in shown.err
    assert run("show", "event…z").code == 3


def test_ids_are_short_wherever_they_are_printed(run, alike):
    """What a verb says of a session names it as the list does."""
    id, short = alike[0], "event-folder-critical-illness-claim-claim-001"
    assert run("tag", short, "x").code == 0
    done = [run("archive", short), run("archive", short, "--restore"), run("pin", short), run("verify", short)]
    done += [run("delete", short, "--yes"), run("list", "--trash"), run("undelete", short)]
    done += [run("fork", short, "--id", "copy"), run("compare", "copy", short), run("list", "--columns", "parent")]
    for shown in done:
        assert shown.code == 0, shown
        assert short in shown.out
        assert id not in shown.out


def test_an_id_that_was_just_made_stays_unique_for_a_while(run, two):
    """Ids of one moment begin alike: as much is shown as tells this millisecond from the next."""
    made = run("fork", "north").out.split()[-1]
    assert len(made) == 10
    assert run("fork", "north").code == run("title", made).code == 0


def test_options_that_name_a_session_take_its_beginning(run, two):
    """As arguments do."""
    run("fork", "north", "--id", "north-again")
    assert "north-again" in run("list", "--parent", "nort").err + run("list", "--parent", "north").out
    assert run("waiting", "--session", "sou").err == "No tool calls are waiting.\n"


def test_a_search_leads_to_the_session_that_it_shows(run, two):
    """The example below the hits names the first of them."""
    run("fork", "north", "--id", "another")
    assert "holdfast show north --at" in run("search", "Go north").err


def test_a_number_that_is_too_small_and_an_option_without_its_value(run, two):
    """Are told with the least, and with the help page of their verb."""
    assert "-1 is less than 0" in run("list", "-n", "-1").err
    assert "See `holdfast list --help`." in run("list", "--cwd").err


KILLED = """
import os, sys, holdfast
s = holdfast.open(sys.argv[1]).session("work")
s.user("Migrate")
try:
    with s.tool("Bash", {"command": "make"}, id="a"):
        raise RuntimeError("exit code 1")
except RuntimeError:
    s.tool("Bash", {"command": "make again"}, id="b").__enter__()
s.flush()
os._exit(0)
"""


def test_what_an_interrupted_call_left(run, store_root):
    """A call without a result says so, and counts among what went wrong; what a tool raised is told in its words."""
    subprocess.run([sys.executable, "-c", KILLED, str(store_root)], check=True)
    shown = run("show", "work", "--errors").out
    assert "RuntimeError: exit code 1" in shown
    assert '"cancelled"' not in shown
    assert "✗ Bash  no result was recorded" in shown
