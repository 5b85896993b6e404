"""``holdfast show`` and ``holdfast snapshots``."""

from __future__ import annotations

import json

import pytest

from holdfast.apps.cli._options import INCOMPLETE, PROVIDERS
from holdfast.errors import UsageError


@pytest.mark.req("S2-2")
def test_header_and_conversation(run, trip, library):
    """The screen has what the session is, then what was said, with numbers to go back to."""
    outcome = run("show", trip)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "Trip to Lisbon"
    for part in ("id        trip-planner", "tags      travel", "agent     planner"):
        assert f"  {part}" in lines
    assert f"  location  {library.location(trip)}" in lines
    assert "  Plan a week in Lisbon" in lines
    assert any(line.startswith("user ") and line.endswith("#5") for line in lines)
    assert '  city="Lisbon"  days=7' in lines
    assert "  Take the train to Sintra." in lines


def test_long_results_are_folded(run, trip):
    """A long tool result is cut to a few lines, and --full shows it all."""
    short, full = run("show", trip).out, run("show", trip, "--full").out
    assert "day 4: sunny" in short
    assert "day 5: sunny" not in short
    assert "use --full to show all" in short
    assert "day 39: sunny" in full
    assert "--full" not in full


def test_only_the_end(run, trip):
    """--last shows the end of the conversation, or the last events."""
    short = run("show", trip, "--last", "1").out
    assert "Sintra" in short
    assert "Plan a week" not in short
    assert len(run("show", trip, "--events", "--json", "--last", "3").out.splitlines()) == 3


def test_a_prefix_is_enough(run, trip):
    """An id may be cut short as long as one session fits, whatever its case."""
    assert run("show", "TRIP").out == run("show", trip).out


def test_the_newest(run, trip, library):
    """`-` is the newest session."""
    with library.session("later", title="Later") as s:
        s.user("x")
    assert run("show", "-").out.startswith("Later\n")


@pytest.mark.req("S0-31")
def test_json_document(run, trip, library):
    """--json gives the metadata with the place, and the events of the conversation."""
    document = json.loads(run("show", trip, "--json").out)
    assert document["session"]["session_id"] == trip
    assert document["session"]["location"] == library.location(trip)
    kinds = [event["type"] for event in document["conversation"]]
    assert kinds == ["system", "user", "tool_call", "tool_result", "assistant"]
    assert document["conversation"][1]["data"]["content"] == "Plan a week in Lisbon"


def test_events_as_a_table(run, trip, library):
    """--events shows each event on a line."""
    lines = run("show", trip, "--events").out.splitlines()
    assert lines[0].split() == ["SEQ", "TIME", "TYPE", "RUN", "DATA"]
    assert [int(line.split()[0]) for line in lines[1:]] == [e.seq for e in library.events(trip)]
    assert max(map(len, lines)) < 300


def test_events_as_json_lines(run, trip, library):
    """--events --json gives one event per line, data as recorded."""
    lines = [json.loads(line) for line in run("show", trip, "--events", "--json").out.splitlines()]
    assert [line["data"] for line in lines] == [event.data for event in library.events(trip)]
    assert [line["seq"] for line in lines] == list(range(len(lines)))


def test_state(run, trip):
    """--state prints the folded state."""
    state = json.loads(run("show", trip, "--state").out)
    assert state["variables"] == {"budget": 900}
    assert state["title"] == "Trip to Lisbon"
    assert "shape" not in state


def test_at_goes_back(run, trip):
    """--at shows document, state and events as they were then."""
    past = run("show", trip, "--at", "5", "--json").out
    assert "Plan a week" in past
    assert "Sintra" not in past
    assert json.loads(past)["session"]["message_count"] == 2
    assert "variables" not in json.loads(run("show", trip, "--state", "--at", "5").out)
    assert len(run("show", trip, "--events", "--json", "--at", "5").out.splitlines()) == 6


def test_at_beyond_the_end(run, trip):
    """A point that the log has not reached is not found."""
    outcome = run("show", trip, "--at", "999")
    assert outcome.code == 3
    assert "the last is 10" in outcome.err


@pytest.mark.req("S3-65")
def test_messages_and_report(run, trip, library):
    """--messages prints a valid list; what was changed is told on standard error in words."""
    with library.session(trip) as s:
        s.tool_call("Book", {"train": "R2"})
    outcome = run("show", trip, "--messages")
    assert outcome.code == 0
    messages = json.loads(outcome.out)
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2 + ["user"]
    assert outcome.err.startswith(f"Session {trip} recovery: Sanitized 1 issue(s): [")
    assert "Book" in outcome.err


def test_messages_with_options(run, trip):
    """--provider, --at and --json work together; the system prompt is in the document."""
    outcome = run("show", trip, "--messages", "--provider", "gemini", "--at", "5", "--json")
    document = json.loads(outcome.out)
    assert document["system"] == "Be brief."
    assert document["messages"] == [{"role": "user", "parts": [{"text": "Plan a week in Lisbon"}]}]
    assert document["issues"] == []
    assert outcome.err == ""  # what it would say is in the document


@pytest.mark.parametrize("incomplete", INCOMPLETE)
def test_incomplete_calls(run, trip, library, incomplete):
    """--incomplete says what becomes of a call without a result."""
    with library.session(trip) as s:
        s.tool_call("Book", {})
    messages = json.loads(run("show", trip, "--messages", "--incomplete", incomplete).out)
    names = [
        block["name"]
        for message in messages
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_use"
    ]
    assert names == (["Weather"] if incomplete == "drop" else ["Weather", "Book"])
    assert (messages[-1]["role"] == "user") is (incomplete == "mark")


def test_providers_of_the_help_are_those_of_recovery(library, trip):
    """The names that the command offers are exactly those that recovery knows."""
    for provider in PROVIDERS:
        library.recover(trip, provider=provider)
    with pytest.raises(UsageError) as refusal:
        library.recover(trip, provider="no-such")
    assert sorted(PROVIDERS) == sorted(refusal.value.message.rpartition(": one of ")[2].split(", "))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--events", "--state"],
        ["--provider", "openai"],
        ["--incomplete", "mark"],
        ["--window-tokens", "5"],
        ["--messages", "--provider", "no-such"],
        ["--at", "-1"],
    ],
)
def test_options_that_do_not_go_together(run, trip, arguments):
    """What makes no sense is wrong usage."""
    assert run("show", trip, *arguments).code == 2


def test_a_damaged_session_is_shown_as_far_as_it_is_whole(run, damaged, untouched):
    """Everything whole is shown, the gap is named in its place, and the exit code tells."""
    outcome = run("show", damaged)
    assert outcome.code == 4
    assert "event 4 cannot be read" in outcome.out
    shown = [n for n in range(5) if f"message {n}\n" in outcome.out.partition("location")[2]]
    assert shown == [0, 1, 3, 4]
    assert "warning: broken is damaged" in outcome.err
    assert "holdfast verify broken" in outcome.err


def test_a_session_without_words(run, library):
    """A session in which nothing was said yet can be shown."""
    with library.session("quiet", title="Quiet"):
        pass
    with library.session("quiet") as s:
        s.variables["x"] = 1
    assert "Nothing was said yet" in run("show", "quiet").out


def test_payloads_kept_apart(run, library):
    """A big payload is told by its size, and shown with --full."""
    with library.session("big") as s:
        call = s.tool_call("Read", {})
        s.tool_result(call, "start " + "x" * 400_000 + " end")
    assert "kept beside the log: holdfast show --full has them]" in run("show", "big").out
    assert " end\n" in run("show", "big", "--full").out


@pytest.mark.req("S4-46")
def test_snapshots(run, trip, library):
    """The snapshots are listed newest first, and one that is not whole says so."""
    assert "has no snapshots" in run("snapshots", trip).err
    with library.session(trip) as s:
        first = s.snapshot()
        s.user("more")
        second = s.snapshot()
    lines = run("snapshots", trip).out.splitlines()[1:]
    assert [int(line.split()[0]) for line in lines] == [second, first]
    name = f"snapshots/{first}.json"
    library.store.documents(f"sessions/{trip}").put(name, b"{}")
    document = json.loads(run("snapshots", trip, "--json").out)
    assert [one["whole"] for one in document["snapshots"]] == [True, False]
    assert "not whole" in run("snapshots", trip).out
