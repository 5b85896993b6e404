"""``holdfast fork``, ``compare``, ``merge``, ``restore`` and ``list --tree``."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.apps.cli import cli
from holdfast.apps.render.words import forest
from holdfast.model import SessionMetadata

COMMAND = str(Path(sys.executable).with_name("holdfast"))


@pytest.fixture
def two(library, trip):
    """The trip, and a fork of it named sea; both went on."""
    library.fork(trip, new_id="sea")
    with library.session(trip) as s:
        s.user("Hotel?")
        s.assistant("Central", usage={"output_tokens": 10})
        s.variables["budget"] = 800
    with library.session("sea") as s:
        s.user("Hotel?")
        with s.tool("Search", {"path": "hotels.txt"}) as call:
            call.result = "3 found"
        s.assistant("By the sea \x1b[31m", usage={"output_tokens": 20, "cost": 0.25})
        s.variables["budget"] = 1200
        s.memory.set("beach", True)
    return trip, "sea"


@pytest.mark.req("S2-67")
def test_fork(run, trip, library):
    """A fork is made by id or its beginning, at an event, and named."""
    outcome = run("fork", "trip", "--at", "4", "--id", "other", "--title", "By train")
    assert (outcome.code, outcome.out) == (0, "forked trip-planner after event 4: other\n")
    assert library.info("other").title == "By train"
    made = json.loads(run("fork", "trip-planner", "--json").out)
    assert (made["parent"], library.exists(made["session_id"])) == ("trip-planner", True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("fork", "nowhere"), 3, "no session nowhere"),
        (("fork", "trip", "--at", "999"), 3, "no event 999"),
        (("fork", "trip", "--at", "-1"), 2, "--at"),
        (("fork", "trip", "--id", "trip-planner"), 2, "already"),
        (("fork", "trip", "--id", "../x"), 2, "id"),
        (("restore", "trip"), 2, "--at"),
        (("compare", "trip"), 2, "missing argument"),
        (("merge", "trip", "trip", "--turns", "some"), 2, "neither all, summary"),
        (("merge", "trip", "trip", "--turns", "7"), 2, "no new turn 7"),
        (("merge", "trip", "trip", "--policy", "mine"), 2, "mine"),
    ],
)
@pytest.mark.usefixtures("trip", "untouched")
def test_what_is_wrong_is_said_and_nothing_is_made(run, arguments, code, said):
    """Each mistake has its sentence and exit code, before anything is written."""
    outcome = run(*arguments)
    assert outcome.code == code
    assert said in outcome.err


def test_a_damaged_session_is_refused(run, damaged):
    """Behind damage there is no fork; before it there is."""
    assert run("fork", damaged).code == 4
    assert run("fork", damaged, "--at", "2").code == 0


@pytest.mark.req("S2-68")
def test_compare(run, two):
    """Both sides with figures, where they parted, turns side by side, tools, files, state."""
    outcome = run("compare", *two)
    assert outcome.code == 0
    assert "\x1b" not in outcome.out
    for part in (
        "A  trip-planner  Trip to Lisbon  1 turn, 10 tokens since",
        "B  sea  Trip to Lisbon (fork)  1 turn, 20 tokens, $0.2500 since",
        "of trip-planner, 1 turn",
        "Turns",
        "→ Search",
        "1 call",
        "hotels.txt",
        "variable budget",
        "conflict",
        "memory beach",
    ):
        assert part in outcome.out
    row = next(line for line in outcome.out.splitlines() if "Hotel?" in line)
    assert row.count("Hotel?") == 2


def test_compare_shows_where_answers_differ(run, two, library):
    """Long answers go on below, and a todo is told by its status."""
    for name in two:
        with library.session(name) as s:
            s.user("And then?")
            s.assistant("The same words again. " * 20 + f"But {name} is better.")
            s.todos.write([{"content": "book", "status": "pending" if name == "sea" else "completed"}])
    out = run("compare", *two).out
    assert "sea is better." in out
    assert max(map(len, out.splitlines())) <= 120
    row = next(line for line in out.splitlines() if line.startswith("todo book"))
    assert row.split()[2:] == ["completed", "pending", "conflict"]
    library.fork("sea", new_id="long")
    for name in ("sea", "long"):
        with library.session(name) as s:
            s.user("Tell")
            s.assistant(name + " word" * 300)
    assert "…" in run("compare", "sea", "long").out
    full = run("compare", "sea", "long", "--full").out
    assert "…" not in full
    assert full.count("word") == 600


def test_compare_as_json(run, two):
    """--json gives the comparison as one document."""
    found = json.loads(run("compare", *two, "--json").out)
    assert found["ancestor"]["session_id"] == "trip-planner"
    assert found["turns"][0]["same_question"] is True
    assert {change["name"] for change in found["changes"]} == {"budget", "beach"}


def test_compare_of_the_same_and_of_strangers(run, two, library):
    """Nothing differs, or nothing is common: both are said."""
    assert "Nothing differs." in run("compare", "sea", "sea").out
    with library.session("stranger") as s:
        s.append("assistant", {"content": "goes on"})
    outcome = run("compare", "sea", "stranger")
    assert "no event in common" in outcome.out
    assert "(goes on)" in outcome.out


def test_compare_tells_removals_and_failures(run, library, trip):
    """What a side removed and which calls failed."""
    library.fork(trip, new_id="other")
    with library.session("other") as s:
        del s.variables["budget"]
        s.tool_result(s.tool_call("Read", {}), "no", is_error=True)
    out = run("compare", trip, "other").out
    assert "(removed)" in out
    assert "1 call, 1 failed" in out


@pytest.mark.req("S2-69")
def test_merge(run, two, library):
    """A new session with both, and what was taken over or in conflict."""
    outcome = run("merge", *two, "--policy", "both", "--id", "both")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "merged trip-planner and sea into both",
        "  1 turn of sea",
        "  taken over: memory beach",
        "  conflict: variable budget (both taken)",
    ]
    assert library.state("both").variables == {"budget": 800, "budget@sea": 1200}
    found = json.loads(run("merge", *two, "--turns", "summary", "--json").out)
    assert found["report"]["turns"] == "summary"
    assert "in a summary" in run("merge", *two, "--turns", "summary").out
    assert run("merge", *two, "--turns", "1").code == 0


def test_merge_asks_only_where_someone_is(run, two, library):
    """Without a terminal the conflicts are listed, and nothing is made."""
    count = len(library.session_ids())
    outcome = run("merge", *two, "--policy", "ask")
    assert outcome.code == 2
    assert "variable budget" in outcome.err
    assert len(library.session_ids()) == count


def test_merge_asks_at_a_terminal(two, library, store_root):
    """Each conflict is shown with both values, and the answer counts."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "merge", *two, "--policy", "ask", "--id", "asked"],
        env={**os.environ, "HOLDFAST_STORE": str(store_root), "TERM": "xterm"},
        stdin=side,
        stdout=side,
        stderr=side,
    )
    os.close(side)
    shown = b""
    while b"[b]oth" not in shown:
        shown += os.read(main, 1000)
    os.write(main, b"t\n")
    assert process.wait(120) == 0
    os.close(main)
    assert b"800" in shown
    assert library.state("asked").variables == {"budget": 1200}


def test_restore(run, library, trip):
    """Going back makes a session that the agent goes on with."""
    outcome = run("restore", trip, "--at", "4", "--id", "back")
    assert (outcome.code, outcome.out) == (0, "restored trip-planner after event 4: back\n")
    assert "planner continues with it" in outcome.err
    document = library.store.documents("agents/planner").get("agent.json")[0]
    assert json.loads(document)["current_session"] == "back"
    assert json.loads(run("restore", trip, "--at", "4", "--json").out)["at"] == 4


@pytest.mark.req("S2-67")
def test_a_list_as_a_tree(run, library, trip):
    """Forks stand below the session that they came from."""
    library.fork(trip, new_id="one")
    library.fork("one", new_id="one-one")
    library.fork(trip, new_id="two")
    rows = run("list", "--tree").out.splitlines()[1:]
    assert [row.partition("  just")[0].rstrip() for row in rows] == [
        "trip-planner",
        "├─ two",
        "└─ one",
        "   └─ one-one",
    ]
    assert json.loads(run("list", "--tree", "--json").out)["sessions"]


def test_trees_of_hostile_claims():
    """Circles, oneself, parents that are gone, very deep lines: every row once, no end of them."""
    rows = [
        SessionMetadata(session_id="a", parent="b"),
        SessionMetadata(session_id="b", parent="a"),
        SessionMetadata(session_id="c", parent="c"),
        SessionMetadata(session_id="d", parent="gone"),
        *[SessionMetadata(session_id=f"n{n}", parent=f"n{n - 1}") for n in range(3000)],
    ]
    found = list(forest(rows))
    assert sorted(row.session_id for _, row in found) == sorted(row.session_id for row in rows)
    assert max(len(mark) for mark, _ in found) < 40


def test_the_verbs_are_in_the_help(run):
    """`holdfast --help` names them."""
    out = run("--help").out
    assert all(verb in out for verb in ("fork", "compare", "merge", "restore"))
    assert cli.name == "cli"


def test_what_is_asked(monkeypatch, two, library):
    """The question shows both values; a value that one side removed is called so."""
    from holdfast.apps.cli import branches
    from holdfast.apps.cli._app import App

    app = App()
    lines = []
    monkeypatch.setattr(app.err, "is_terminal", True)
    monkeypatch.setattr(app.err, "line", lambda *pieces, **_: lines.append(str(pieces)))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.prompt", lambda *_, **__: "b")
    with library.session("sea") as s:
        del s.variables["budget"]
    made = library.merge(*two, policy="ask", ask=branches._asker(app))
    assert library.state(made).variables == {"budget": 800}
    assert "(removed)" in " ".join(lines)
    assert "('  before  ', '900')" in lines
