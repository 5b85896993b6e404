"""Taking sessions and agents to another store."""

from __future__ import annotations

import json

import pytest

import holdfast
from holdfast.errors import StoreFull, UsageError


@pytest.fixture(params=["file", "sqlite", "memory"])
def target(request, tmp_path):
    """Another store, of each kind that needs no server."""
    place = {"file": str(tmp_path / "other"), "sqlite": f"sqlite://{tmp_path}/other.db"}
    with holdfast.open(place.get(request.param, "memory:")) as other:
        yield other


@pytest.fixture
def hf(hf):
    """A store with two sessions and an agent, one session with a snapshot and a blob."""
    with hf.session("big", agent_id="bot") as s:
        s.user("hello")
        call = s.tool_call("Read", {"path": "a"})
        s.tool_result(call, {"content": "x" * 400_000})
        s.memory.set("prefs", {"theme": "dark"}, scope="persistent")
        s.snapshot()
        s.title = "The big one"
    with hf.session("small") as s:
        s.user("hi")
    return hf


def lines(hf, id):
    return b"".join(hf.store.log(f"sessions/{id}").read())


def test_everything_arrives_byte_for_byte(hf, target):
    """Logs, snapshots, blobs and the lasting documents of agents are the same over there."""
    done = hf.copy_to(target)
    assert (sorted(done.sessions), done.agents, done.failed) == (["big", "small"], ["bot"], {})
    for id in ("big", "small"):
        assert lines(target, id) == lines(hf, id)
        assert target.recover(id).messages == hf.recover(id).messages
        names = hf.store.documents(f"sessions/{id}").names()
        assert target.store.documents(f"sessions/{id}").names() == names
    assert [one.seq for one in target.snapshots("big")] == [one.seq for one in hf.snapshots("big")]
    agent = hf.store.documents("agents/bot")
    other = target.store.documents("agents/bot")
    assert {n: other.get(n) and other.get(n)[0] for n in agent.names()} == {n: agent.get(n)[0] for n in agent.names()}
    assert {row.session_id for row in target.list()} == {"big", "small"}


def test_a_second_copy_sends_only_what_is_new(hf, target):
    """What is there is compared and not sent again; a session that went on gets its new lines."""
    hf.copy_to(target)
    with hf.session("small") as s:
        s.user("and more")
    done = hf.copy_to(target)
    assert (done.sessions, done.unchanged) == (["small"], ["big"])
    assert lines(target, "small") == lines(hf, "small")
    with target.session("small") as s:
        s.user("goes on over there")
    assert target.verify("small").ok


def test_a_copy_that_broke_off_goes_on_where_it_stopped(hf, target, monkeypatch):
    """The next try sends the rest, and the result is whole."""
    with hf.session("long") as s:
        for number in range(3000):
            s.user(f"message {number} " + "y" * 900)
    real = target.store.log("sessions/long").__class__.append
    count = 0

    def failing(self, *arguments):
        nonlocal count
        count += 1
        if count == 2:
            raise StoreFull("no room")
        return real(self, *arguments)

    kind = type(target.store.log("sessions/long"))
    monkeypatch.setattr(kind, "append", failing)
    done = hf.copy_to(target, ["long"])
    assert done.failed == {"long": "no room"}
    monkeypatch.undo()
    part = target.store.log("sessions/long").size()
    assert 0 < part < hf.store.log("sessions/long").size()
    steps = []
    done = hf.copy_to(target, ["long"], progress=lambda *step: steps.append(step))
    assert done.sessions == ["long"]
    assert done.size_bytes < hf.store.log("sessions/long").size()
    assert lines(target, "long") == lines(hf, "long")
    assert steps[-1][0] == steps[-1][1]


def test_another_session_of_the_same_id_is_left_alone(hf, target):
    """What differs over there is named and not touched; the others are copied."""
    with target.session("small") as s:
        s.user("something else")
    before = lines(target, "small")
    done = hf.copy_to(target)
    assert list(done.failed) == ["small"]
    assert done.sessions == ["big"]
    assert lines(target, "small") == before


def test_a_session_that_went_on_over_there_is_left_alone(hf, target):
    """What was added over there is not taken for another session, and stays."""
    hf.copy_to(target)
    with target.session("small") as s:
        s.user("further")
    before = lines(target, "small")
    done = hf.copy_to(target)
    assert list(done.failed) == ["small"]
    assert "went on" in done.failed["small"]
    assert lines(target, "small") == before


def remembered(library, agent_id="bot"):
    with library.session("looking", agent_id=agent_id) as s:
        return s.memory.get("prefs")


def remember(library, value):
    with library.session("telling", agent_id="bot") as s:
        s.memory.set("prefs", value, scope="persistent")


def test_what_an_agent_learned_since_the_last_copy_arrives_too(hf, target):
    """A document that is over there as it was brought is replaced by what became of it here."""
    hf.copy_to(target)
    remember(hf, "light")
    done = hf.copy_to(target)
    assert (done.agents, done.failed) == (["bot"], {})
    remember(hf, "green")
    assert hf.copy_to(target).failed == {}
    assert remembered(target) == "green"


@pytest.mark.parametrize("copied_before", [True, False])
def test_what_an_agent_learned_over_there_is_not_overwritten(hf, target, copied_before):
    """A document that someone changed over there is named and left; the other ones are copied."""
    hf.store.documents("agents/bot").put("custom_instructions.md", b"Be brief.")
    if copied_before:
        hf.copy_to(target)
    remember(target, "their own")
    remember(hf, "ours")
    done = hf.copy_to(target, progress=None)
    assert done.agents == []
    assert "memory.json" in done.failed["agent bot"]
    assert remembered(target) == "their own"
    assert target.store.documents("agents/bot").get("custom_instructions.md")[0] == b"Be brief."


def test_a_copy_of_an_agent_that_was_broken_off_goes_on(hf, target, monkeypatch):
    """Wherever it stopped, the next one does not take what it left for a change."""
    hf.copy_to(target)
    remember(hf, "light")
    kind = type(target.store.documents("agents/bot"))
    real = kind.put

    def put(self, name, data, **options):
        if name == "memory.json":
            raise StoreFull
        return real(self, name, data, **options)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "put", put)
        assert "agent bot" in hf.copy_to(target).failed
    remember(hf, "green")
    assert hf.copy_to(target).failed == {}
    assert remembered(target) == "green"


@pytest.mark.parametrize("mark", [b"?", b"[1]"])
def test_a_mark_of_copies_that_cannot_be_read_protects_what_is_there(hf, target, mark):
    """Without knowing what was brought, nothing is replaced."""
    hf.copy_to(target)
    target.store.documents("agents/bot").put("copied.json", mark)
    remember(hf, "light")
    assert "memory.json" in hf.copy_to(target).failed["agent bot"]
    assert remembered(target) == {"theme": "dark"}


def test_an_open_session_is_copied_up_to_its_last_whole_line(hf, target):
    """Copying needs no lease here: whoever writes goes on."""
    with hf.session("live") as s:
        s.user("one")
        hf.copy_to(target, ["live"])
        s.user("two")
    hf.copy_to(target, ["live"])
    assert lines(target, "live") == lines(hf, "live")


def test_an_archived_session_arrives_archived(hf, target):
    """Where the other store can archive, it does."""
    hf.archive("big")
    hf.copy_to(target)
    assert target.store.is_archived("sessions/big") == target.store.capabilities.archives
    assert lines(target, "big") == lines(hf, "big")


def test_two_copies_at_once_bring_nothing_twice(hf, target, monkeypatch):
    """What another copy brought between looking and taking the lease is not brought again."""
    kind = type(target.store.lease("sessions/small"))
    real, done = kind.acquire, []

    def acquire(self, *arguments):
        if not done:
            done.append(1)
            done.append(hf.copy_to(target, ["small"]))
        return real(self, *arguments)

    monkeypatch.setattr(kind, "acquire", acquire)
    second = hf.copy_to(target, ["small"])
    assert done[1].sessions == ["small"]
    assert (second.unchanged, second.failed) == (["small"], {})
    assert lines(target, "small") == lines(hf, "small")


def test_a_store_is_not_copied_to_itself(hf, store_root):
    """That would be a mistake."""
    with pytest.raises(UsageError, match="this one"):
        hf.copy_to(store_root)


def test_the_command(hf, tmp_path, store_root):
    """The command tells what it did, in words and as JSON."""
    from click.testing import CliRunner

    from holdfast.apps.cli import cli

    other = f"sqlite://{tmp_path}/x.db"
    base = ["copy", "--store", str(store_root), "--to", other]
    first = CliRunner().invoke(cli, base)
    assert first.output.startswith("copied 2 sessions and 1 agent, ")
    second = json.loads(CliRunner().invoke(cli, [*base, "big", "--json"]).output)
    assert second["unchanged"] == ["big"]
    with holdfast.open(other) as target, target.session("small") as s:
        s.user("over there")
    assert CliRunner().invoke(cli, base).exit_code == 1
