"""``holdfast list``."""

from __future__ import annotations

import json
import re
import time

import pytest


@pytest.fixture
def three(library):
    """Three sessions, one after the other."""
    for number, name in enumerate(["first", "second", "third"]):
        with library.session(name, agent_id="even" if number % 2 == 0 else "odd") as s:
            s.user(f"question {number}")
            s.tag("all")
            if number:
                s.tag("late")
        time.sleep(0.01)


def ids(outcome):
    """The first column of a listing."""
    return [line.split()[0] for line in outcome.out.splitlines()[1:]]


@pytest.mark.req("S2-29")
def test_newest_first(run, three):
    """The session that changed last is on top."""
    assert ids(run("list")) == ["third", "second", "first"]


@pytest.mark.req("S2-6")
def test_what_a_row_tells(run, trip):
    """A row has id, age, title, messages, tokens, cost where it is known, tags and topics."""
    header, row = run("list").out.splitlines()
    names = ["ID", "UPDATED", "TITLE", "MSGS", "COST", "TOKENS", "TAGS", "TOPICS", "STATE"]
    assert header.split() == names
    assert row.split("  ")[0] == "trip-planner"
    for part in ("just now|min ago", "Trip to Lisbon", " 4 ", r"1\.2k", "travel"):
        assert re.search(part, row)


def test_limit(run, three):
    """--limit cuts, and 0 means all."""
    assert ids(run("list", "--limit", "2")) == ["third", "second"]
    assert len(ids(run("list", "--limit", "0"))) == 3


@pytest.mark.req("S2-62")
def test_tags_must_all_be_there(run, three):
    """Several --tag ask for sessions that have them all."""
    assert ids(run("list", "--tag", "all", "--tag", "late")) == ["third", "second"]


def test_agent(run, three):
    """--agent shows one agent's sessions."""
    assert ids(run("list", "--agent", "odd")) == ["second"]


@pytest.mark.req("S2-59")
def test_since_and_until(run, three):
    """Times may be dates or how long ago."""
    assert len(ids(run("list", "--since", "1h"))) == 3
    assert run("list", "--until", "1h").out == ""
    assert len(ids(run("list", "--since", "today", "--until", "today"))) == 3
    assert run("list", "--since", "2999-01-01").out == ""


@pytest.mark.parametrize("when", ["soon", "3x", "2026-13-01", "99999999d", ""])
def test_a_time_that_is_none(run, when):
    """A wrong time is wrong usage, and the message shows what is right."""
    outcome = run("list", "--since", when)
    assert outcome.code == 2
    assert "3d, 2h" in outcome.err


def test_json(run, trip):
    """--json gives one document with the sessions' metadata."""
    (row,) = json.loads(run("list", "--json").out)["sessions"]
    assert row["session_id"] == "trip-planner"
    assert row["title"] == "Trip to Lisbon"
    assert row["tags"] == ["travel"]
    assert row["message_count"] == 4
    assert row["total_tokens"] == 1234
    assert row["updated_at"] >= row["created_at"] > 1_700_000_000_000


def test_an_empty_store_says_so(run, store_root):
    """With nothing to list, the place is named and standard output stays empty."""
    outcome = run("list")
    assert outcome.code == 0
    assert outcome.out == ""
    assert f"no sessions in {store_root} yet" in outcome.err


def test_nothing_fits(run, three):
    """A filter that nothing passes is told apart from an empty store."""
    assert "No matching sessions" in run("list", "--tag", "none").err


def test_states_are_told(run, damaged, too_new, library):
    """A session that is damaged, too new or was cut off says so."""
    with library.session("cut") as s:
        s.append("turn_start", {"turn": 1})
        s.append("interrupted", {"reason": "killed"})
    states = {line.split()[0]: line.split()[-1] for line in run("list").out.splitlines()[1:]}
    assert states["broken"] == "damaged"
    assert states["from-the-future"] == "new"
    assert states["cut"] == "interrupted"


@pytest.mark.req("S2-60")
def test_pages_follow_each_other(run, three):
    """`next` of one page, given as --after, is the beginning of the following one."""
    first = json.loads(run("list", "--limit", "2", "--json").out)
    assert [row["session_id"] for row in first["sessions"]] == ["third", "second"]
    rest = json.loads(run("list", "--limit", "2", "--after", first["next"], "--json").out)
    assert [row["session_id"] for row in rest["sessions"]] == ["first"]
    assert rest["next"] is None
    assert run("list", "--after", "nonsense").code == 2


def test_all_is_no_limit(run, three):
    """--all shows everything, whatever the limit."""
    assert len(ids(run("list", "--limit", "1", "--all"))) == 3


def test_narrowed_by_what_happened(run, library, three):
    """--status, --model, --parent and --archived narrow a list."""
    with library.session("asked") as s:
        s.assistant("Yes.", model="gpt-5", usage={"input_tokens": 1, "output_tokens": 1})
        s.append("turn_start", {"turn": 1})
    assert ids(run("list", "--status", "interrupted")) == ["asked"]
    assert ids(run("list", "--model", "gpt-5")) == ["asked"]
    assert run("list", "--parent", "first").out == ""
    library.archive("first")
    assert ids(run("list", "--archived")) == ["first"]
    assert "first" not in ids(run("list", "--not-archived"))
    assert "archived" in run("list", "--archived").out
    assert run("list", "--status", "asleep").code == 2


def test_a_session_that_failed_is_red(run, library, three):
    """It is found by --status failed, and stands out on a terminal."""
    with library.session("broken-off") as s:
        s.append("turn_start", {})
        s.append("turn_end", {"reason": "failed"})
    assert ids(run("list", "--status", "failed")) == ["broken-off"]
    assert "31mfailed" in run("list", "--color", "always").out


def test_cost(run, library):
    """A cost is shown in dollars; a small one as far as something can be seen of it."""
    for name, cost in (("cheap", 0.0004), ("dear", 12.3456)):
        with library.session(name) as s:
            s.assistant("Yes.", usage={"input_tokens": 1, "output_tokens": 1, "cost": cost})
    out = run("list").out
    assert "$0.0004" in out
    assert "$12.35" in out


@pytest.fixture
def watched(monkeypatch):
    """Do something at each pause of a watch, then press Ctrl-C."""

    def watched(*steps):
        left = list(steps)

        def pause(_):
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr("holdfast.apps.cli.list.time.sleep", pause)

    return watched


@pytest.mark.req("S2-58")
def test_watch_tells_each_change(run, library, three, watched):
    """What is added, changed or removed is a line; Ctrl-C is no failure."""

    def add():
        with library.session("fourth") as s:
            s.user("hello")

    def go_on():
        with library.session("fourth") as s:
            s.user("once more")

    watched(add, go_on, lambda: library.delete("second"), lambda: None)
    outcome = run("list", "--watch", "--json")
    assert outcome.code == 0
    changes = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(one["change"], one["session"]["session_id"]) for one in changes] == [
        ("added", "fourth"),
        ("changed", "fourth"),
        ("removed", "second"),
    ]
    assert changes[1]["session"]["message_count"] == 2


def test_watch_in_a_pipe(run, library, three, watched):
    """Without --json the lines are for people; what falls off the page is not removed."""

    def add():
        with library.session("fourth") as s:
            s.user("hello \x1b[31m")

    watched(add)
    outcome = run("list", "--watch", "--limit", "1")
    assert outcome.code == 0
    assert outcome.out.split()[:2] == ["added", "fourth"]
    assert "removed" not in outcome.out
    assert "\x1b" not in outcome.out


def test_a_long_title_is_whole_for_programs(run, library):
    """A title of 10,000 characters is whole in JSON."""
    title = "long " * 2000
    with library.session("a", title=title) as s:
        s.user("x")
    assert json.loads(run("list", "--json").out)["sessions"][0]["title"] == title


def test_reindex(run, three, store_root):
    """The catalogue is made anew, and what was read is told."""
    (store_root / "catalog.db").write_bytes(b"nonsense")
    assert run("reindex").out.startswith("Read 3 sessions with ")
    done = json.loads(run("reindex", "--json").out)
    assert done["sessions"] == 3
    assert done["bytes"] == sum(path.stat().st_size for path in store_root.glob("sessions/*/events.jsonl"))
    assert ids(run("list")) == ["third", "second", "first"]


def test_lost_events_are_told(run, three, store_root):
    """A log that became shorter is damaged for list, verify and doctor, until that is accepted."""
    assert len(ids(run("list"))) == 3
    log = store_root / "sessions" / "second" / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    told = run("verify", "second")
    assert told.code == 4
    assert "1 events that the catalogue has seen" in told.out
    assert "accept it with `holdfast repair`" in told.out
    (log.parent / "lock").unlink()  # with it goes what its last writer knew
    assert "accept it with `holdfast reindex`" in run("verify", "second").out
    assert run("reindex").code == 0
    assert run("verify", "second").code == 0


def test_a_loss_is_accepted_by_a_repair(run, three, store_root):
    """Then verify is content, and tells the loss all the same."""
    log = store_root / "sessions" / "second" / "events.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert run("repair", "second").code == 0
    content = run("verify", "second")
    assert content.code == 0
    assert "lost for good" in content.out


def test_sorted_and_narrowed(run, library):
    """By an order, either way, and by words of the title in any case."""
    for number, title in enumerate(("Crème", "apple", "Banana")):
        with library.session(f"s{number}", title=title) as session:
            for _ in range(number + 1):
                session.user("more")

    def listed(*arguments):
        return ids(run("list", *arguments))

    assert listed("--sort", "title") == ["s1", "s2", "s0"]
    assert listed("--sort", "title:desc") == ["s0", "s2", "s1"]
    assert listed("--sort", "messages") == ["s2", "s1", "s0"]
    assert listed("CREME") == ["s0"]
    assert listed("an", "ban", "--sort", "title") == ["s2"]
    assert "No matching sessions" in run("list", "nothing-like-it").err
    refused = run("list", "--sort", "colour")
    assert refused.code == 2
    assert "no order" in refused.err
    assert "updated, created, title" in refused.err
