"""``holdfast title``, ``tag`` and ``pin``."""

from __future__ import annotations

import json
import threading

import pytest

from holdfast.storage import open_store
from holdfast.testing.model_server import Fail, Say, ScriptedModel


def test_title(run, library, trip):
    """Shown, set by a prefix of the id, and as JSON."""
    assert run("title", trip).out == "Trip to Lisbon\n"
    assert run("title", "trip", "Lisbon in May").out == "titled trip-planner  Lisbon in May\n"
    assert json.loads(run("title", "-", "--json").out) == {"session_id": trip, "title": "Lisbon in May"}


def test_a_title_cannot_leave_its_line(run, library, trip):
    """Controls and newlines in a title are shown, not obeyed."""
    run("title", trip, "a\x1b[2Jb\nc")
    assert "\x1b" not in run("title", trip).out
    assert len(run("title", trip).out.splitlines()) == 1
    assert library.info(trip).title == "a\x1b[2Jb\nc"


@pytest.mark.req("S2-61")
def test_tags(run, trip):
    """Added, removed, and shown with the automatic ones."""
    assert run("tag", trip, "may", "two words").out.splitlines() == ["travel", "may", "two words"]
    assert run("tag", trip, "two words", "--remove").out.splitlines() == ["travel", "may"]
    found = json.loads(run("tag", trip, "--json").out)
    assert found == {"session_id": trip, "tags": ["travel", "may"], "auto_tags": []}


@pytest.mark.req("S2-63")
def test_automatic_tags_are_told_as_such(run, library):
    """They are marked, and --why says what spoke for them."""
    with library.session("bread") as session:
        session.user("a recipe for sourdough bread")
    assert run("tag", "bread").out == "cooking  (automatic)\n"
    header, row = run("tag", "bread", "--why").out.splitlines()
    assert header.split() == ["TAG", "SCORE", "WHY"]
    assert row.startswith("cooking")
    assert "1x sourdough" in row
    found = json.loads(run("tag", "bread", "--why", "--json").out)
    assert found["topics"][0]["tag"] == "cooking"


def test_no_tags(run, library):
    """It is told that there are none, on standard error."""
    with library.session("mute") as session:
        session.user("hm")
    for arguments in (["tag", "mute"], ["tag", "mute", "--why"]):
        outcome = run(*arguments)
        assert (outcome.code, outcome.out) == (0, "")
        assert "mute" in outcome.err


@pytest.mark.parametrize("tag", ["", " ", "\n", "x" * 10_000])
def test_hostile_tags(run, library, trip, tag):
    """Refused with a sentence; nothing is recorded."""
    outcome = run("tag", trip, "good", tag)
    assert outcome.code in (1, 2)
    assert outcome.err.startswith("error: ")
    assert library.info(trip).tags == ("travel",)


@pytest.mark.parametrize(
    "arguments",
    [
        ["tag", "x", "a", "--why"],
        ["tag", "x", "--why", "--suggest"],
        ["tag", "x", "--remove"],
        ["tag", "x", "--model", "m"],
        ["tag", "x", "--apply"],
        ["pin", "x", "--off", "--release"],
        ["pin", "x", "--hold", "r", "--release"],
    ],
)
def test_what_does_not_go_together(run, arguments):
    """Wrong usage has the exit code 2."""
    assert run(*arguments).code == 2


@pytest.mark.parametrize("verb", ["title", "tag", "pin"])
def test_no_such_session(run, library, verb):
    """The exit code is 3."""
    assert run(verb, "nobody").code == 3


def test_pin(run, library, trip):
    """Pinned, unpinned, held and released."""
    assert run("pin", trip).out == "pinned trip-planner\n"
    assert library.info(trip).pinned
    assert run("pin", trip, "--off").out == "unpinned trip-planner\n"
    assert run("pin", trip, "--hold", "case 7").out == "held trip-planner\n"
    assert library.info(trip).held
    assert run("pin", trip, "--release").out == "released trip-planner\n"
    assert not library.info(trip).pinned
    assert not library.info(trip).held


def test_a_hold_without_a_reason(run, trip):
    """It is refused with a sentence."""
    assert "reason" in run("pin", trip, "--hold", " ").err


@pytest.fixture
def asked(run):
    """Run the command with a scripted model."""

    def asked(script, *arguments):
        with ScriptedModel(script) as model:
            env = {"HOLDFAST_BASE_URL": model.openai_url, "OPENAI_API_KEY": "any"}
            outcome = run(*arguments, "--model", "openai:scripted", env=env)
            return outcome, model.requests

    return asked


def test_suggestions_of_a_model(asked, library, trip):
    """One request with the conversation; shown, and recorded only with --apply."""
    answer = [Say("**Title:** A week in Lisbon\nTags: travel, Portugal, #trains")]
    outcome, requests = asked(answer, "tag", trip, "--suggest")
    assert outcome.out.splitlines() == ["title  A week in Lisbon", "tags   travel, portugal, trains"]
    assert "--apply" in outcome.err
    assert len(requests) == 1
    assert "Plan a week in Lisbon" in str(requests[0].messages)
    assert library.info(trip).title == "Trip to Lisbon"

    outcome, _ = asked(answer, "tag", trip, "--suggest", "--apply", "--json")
    assert json.loads(outcome.out)["applied"] is True
    assert library.info(trip).title == "A week in Lisbon"
    assert library.info(trip).tags == ("travel", "portugal", "trains")


@pytest.mark.parametrize("script", [[Say("I would rather not.")], [Fail(401, "no key")]])
def test_a_model_that_does_not_help(asked, library, trip, script):
    """It is told in a sentence, and nothing is recorded."""
    outcome, _ = asked(script * 5, "tag", trip, "--suggest", "--apply")
    assert outcome.code == 1
    assert "error: " in outcome.err
    assert library.info(trip).title == "Trip to Lisbon"


def test_only_a_title_or_only_tags(asked, library):
    """What is missing is left as it was; of a message in blocks the text is sent."""
    with library.session("s") as session:
        session.user([{"type": "text", "text": "about owls"}, {"type": "image"}])
        session.assistant("")
    outcome, requests = asked([Say("Title: Owls")], "tag", "s", "--suggest", "--apply")
    assert "tags   (none)" in outcome.out
    assert "about owls" in str(requests[0].messages)
    outcome, _ = asked([Say(f"Tags: birds, {'x' * 99}, ,")], "tag", "s", "--suggest", "--apply")
    assert outcome.out.splitlines() == ["title  (none)", "tags   birds"]
    assert (library.info("s").title, library.info("s").tags) == ("Owls", ("birds",))


@pytest.mark.parametrize("verb", [["tag", "trip", "may"], ["title", "trip", "May"], ["pin", "trip"], ["run", "Hi"]])
def test_a_session_that_is_open_elsewhere_is_waited_for(run, library, trip, store_root, verb):
    """With ``--wait`` a verb waits for it; over it the error names the option."""
    store = open_store(store_root)
    lease = store.lease(f"sessions/{trip}")
    lease.acquire("somebody", 60_000)
    more = ["--session", trip, "--model", "test"] if verb[0] == "run" else []
    refused = run(*verb, *more, "--wait", "0.01")
    assert refused.code == 4
    assert "--wait" in refused.err
    threading.Timer(0.05, lease.release).start()
    assert run(*verb, *more, "--wait", "60").code == 0
    assert run(*verb, *more, "--wait", "-1").code == 2
    assert run(*verb, *more, "--wait", "nan").code == 2
    store.close()


@pytest.mark.parametrize(
    "verb",
    [["delete"], ["archive"], ["redact", "--find", "Sintra", "-y"], ["erase", "-y"], ["repair"]],
    ids=lambda verb: verb[0],
)
def test_a_verb_that_cannot_wait_does_not_say_so(run, library, trip, store_root, verb):
    """The remedy names no option that the verb does not take."""
    store = open_store(store_root)
    lease = store.lease(f"sessions/{trip}")
    lease.acquire("somebody", 60_000)
    name, *more = verb
    refused = run(name, trip, *more)
    lease.release()
    store.close()
    assert refused.code == 4
    assert "wait" not in refused.err
    assert "Close it there first" in refused.err
