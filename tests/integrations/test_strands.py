"""Strands Agents on our log."""

from __future__ import annotations

import pytest
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import holdfast
from holdfast.integrations.strands import HoldfastSessionRepository

CALL = {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"n": 1}}}
OTHER = {"toolUse": {"toolUseId": "c2", "name": "look", "input": {"n": 2}}}
RESULT = {"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "a tree"}]}}
MESSAGES = [
    {"role": "user", "content": [{"text": "Look around"}]},
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
            {"text": "I look."},
            CALL,
        ],
    },
    {"role": "user", "content": [RESULT]},
    {"role": "assistant", "content": [{"text": "A tree."}]},
    {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": b"\0\1"}}}]},
]


def _begun(hf, agent="main"):
    repository = HoldfastSessionRepository(hf)
    repository.create_session(Session("trip", SessionType.AGENT))
    repository.create_agent("trip", SessionAgent(agent, {"k": 1}, {"window": 1}))
    return repository


def _say(repository, messages, agent="main", start=0):
    for number, message in enumerate(messages, start):
        repository.create_message("trip", agent, SessionMessage.from_message(message, number))


def _said(repository, agent="main", **page):
    return [one.to_message() for one in repository.list_messages("trip", agent, **page)]


def test_messages_come_back_as_they_went_in(hf):
    """Text, thoughts, calls, results and bytes, from another object too; in pages."""
    repository = _begun(hf)
    _say(repository, MESSAGES)
    again = HoldfastSessionRepository(hf)
    assert _said(again) == MESSAGES
    assert _said(again, limit=2, offset=1) == MESSAGES[1:3]
    assert again.read_message("trip", "main", 3).message == MESSAGES[3]
    assert again.read_message("trip", "main", 99) is None


def test_its_sessions_are_sessions_like_any_other(hf):
    """Recover pairs the call with its result, and search finds the words."""
    _say(_begun(hf), MESSAGES[:4])
    recovery = hf.recover("trip")
    assert not recovery.issues
    assert [message["role"] for message in recovery.messages] == [*("user", "assistant", "user", "assistant")]
    assert {hit.role for hit in hf.search("tree")} == {"tool_result", "assistant"}


def test_a_message_can_be_replaced(hf):
    """What was redacted is no longer in the conversation, and keeps its time and place."""
    repository = _begun(hf)
    _say(repository, MESSAGES[:1])
    before = repository.read_message("trip", "main", 0)
    hidden = {"role": "user", "content": [{"text": "[hidden]"}]}
    changed = SessionMessage(before.message, 0, redact_message=hidden)
    repository.update_message("trip", "main", changed)
    assert _said(HoldfastSessionRepository(hf)) == [hidden]
    assert repository.read_message("trip", "main", 0).created_at == before.created_at
    assert hf.recover("trip").messages == [{"role": "user", "content": "[hidden]"}]


def test_agents_keep_their_state_and_their_messages_apart(hf):
    """A second agent is a run of its own; what changed of a state is what is recorded."""
    repository = _begun(hf)
    repository.create_agent("trip", SessionAgent("helper", {}, {}))
    _say(repository, MESSAGES[:1])
    _say(repository, MESSAGES[3:4], agent="helper")
    assert _said(repository, "helper") == MESSAGES[3:4]
    assert len(hf.recover("trip").messages) == 1
    agent = repository.read_agent("trip", "main")
    agent.state["k"] = 2
    repository.update_agent("trip", agent)
    again = HoldfastSessionRepository(hf).read_agent("trip", "main")
    assert again.state == {"k": 2}
    assert again.conversation_manager_state == {"window": 1}


def test_the_state_of_a_group_is_kept(hf):
    """Created, changed and read again."""

    class Group:
        id = "graph"

        def __init__(self):
            self.state = {"node": 1, "done": ["a"]}

        def serialize_state(self):
            return dict(self.state)

    repository, group = _begun(hf), Group()
    assert repository.read_multi_agent("trip", "graph") is None
    with pytest.raises(SessionException):
        repository.update_multi_agent("trip", group)
    repository.create_multi_agent("trip", group)
    group.state = {"node": 2, "done": ["a", "b"]}
    repository.update_multi_agent("trip", group)
    assert HoldfastSessionRepository(hf).read_multi_agent("trip", "graph") == group.state


ASKED = [*MESSAGES[:1], {"role": "assistant", "content": [CALL, OTHER]}]


def _results(message):
    return {part["toolResult"]["toolUseId"]: part["toolResult"]["status"] for part in message}


def test_a_call_in_the_last_message_is_left_alone(hf):
    """It may wait for a person: the list ends with it, whoever reads it."""
    repository = _begun(hf)
    _say(repository, ASKED)
    assert _said(HoldfastSessionRepository(hf)) == ASKED
    assert HoldfastSessionRepository(hf).messages("trip") == ASKED


def test_a_call_that_others_went_on_after_is_answered(hf):
    """The list is valid: calls whose result never came say so, before what was said next."""
    repository = _begun(hf)
    _say(repository, ASKED)
    with hf.session("trip") as session:
        session.user("Still there?")
    *_, lost, last = _said(HoldfastSessionRepository(hf))
    assert _results(lost["content"]) == {"c1": "error", "c2": "error"}
    assert last == {"role": "user", "content": [{"text": "Still there?"}]}


def test_of_two_calls_the_one_without_its_result_is_answered(hf):
    """In the message that has the other's result, also where that was redacted."""
    repository = _begun(hf)
    _say(repository, [*ASKED, {"role": "user", "content": [RESULT]}])
    *_, last = _said(HoldfastSessionRepository(hf))
    assert _results(last["content"]) == {"c1": "success", "c2": "error"}
    hidden = RESULT["toolResult"] | {"content": [{"text": "[hidden]"}]}
    given = {"role": "user", "content": [{"toolResult": hidden}]}
    repository.update_message("trip", "main", SessionMessage(ASKED[0], 2, redact_message=given))
    *_, last = _said(HoldfastSessionRepository(hf))
    assert _results(last["content"]) == {"c1": "success", "c2": "error"}


def test_what_is_put_in_is_the_same_at_each_reading(hf):
    """It has a tracking id and a number of its own, which no other message has."""
    repository = _begun(hf)
    again = [{"role": "assistant", "content": [CALL]}, *MESSAGES[3:4]]
    _say(repository, [*ASKED, *again, *again])
    first, second = (HoldfastSessionRepository(hf).list_messages("trip", "main") for _ in range(2))
    assert [one.to_dict() for one in first] == [one.to_dict() for one in second]
    numbers = [one.message_id for one in first]
    assert len(numbers) == len(set(numbers)) == 9
    put_in = [one.message["tracking_id"] for one in first if "tracking_id" in one.message]
    assert len(put_in) == len(set(put_in)) == 3
    assert numbers[-1] == 5  # the next of Strands is the sixth


def test_an_agent_goes_on_with_a_session_of_others_in_which_a_call_was_lost(hf):
    """What was put in is handed on to the agent like the rest, and nothing is recorded again."""
    with hf.session("trip") as session:
        session.user("Hello")
        session.tool_call("look", {"n": 1}, id="c1")
        session.user("Still there?")
    repository = HoldfastSessionRepository(hf)
    handed_on = repository.messages("trip")
    repository.create_agent("trip", SessionAgent("main", {}, {}))
    _say(repository, handed_on)
    _say(repository, MESSAGES[3:4], start=len(handed_on))
    assert _said(HoldfastSessionRepository(hf)) == [*handed_on, MESSAGES[3]]
    assert [event.type for event in hf.events("trip") if event.type in ("user", "assistant")] == [
        *("user", "user", "assistant")
    ]
    numbers = [one.message_id for one in repository.list_messages("trip", "main")]
    assert numbers == [0, 1, 2, 3, 4]


def test_a_fork_is_a_session_of_its_own(hf):
    """It goes on from where it was forked, under its own id, and its origin stays as it was."""
    repository = _begun(hf)
    _say(repository, MESSAGES[:4])
    at = next(event.seq for event in hf.events("trip", types={"tool_result"}))
    fork = hf.fork("trip", at)
    other = HoldfastSessionRepository(hf)
    assert other.read_session(fork).session_id == fork
    assert [one.to_message() for one in other.list_messages(fork, "main")] == MESSAGES[:3]
    said = {"role": "assistant", "content": [{"text": "A bush."}]}
    other.create_message(fork, "main", SessionMessage.from_message(said, 3))
    assert [one.to_message() for one in other.list_messages(fork, "main")] == [*MESSAGES[:3], said]
    assert _said(repository) == MESSAGES[:4]


def test_errors_are_the_framework_s_own(hf):
    """What is not there, and what is there already."""
    repository = HoldfastSessionRepository(hf)
    assert repository.read_session("trip") is None
    assert repository.read_agent("trip", "main") is None
    for wrong in (
        lambda: repository.delete_session("trip"),
        lambda: repository.list_messages("trip", "main"),
        lambda: repository.update_agent("trip", SessionAgent("main", {}, {})),
        lambda: repository.update_message("trip", "main", SessionMessage(MESSAGES[0], 0)),
    ):
        with pytest.raises(SessionException):
            wrong()
    repository = _begun(hf)
    with pytest.raises(SessionException):
        repository.create_session(Session("trip", SessionType.AGENT))
    with pytest.raises(ValueError, match="integer"):
        repository.read_message("trip", "main", "0")
    repository.delete_session("trip")
    assert repository.read_session("trip") is None


_PROGRAM = """
    import sys, time
    from strands import Agent, tool
    from strands.models import Model
    from strands.session.repository_session_manager import RepositorySessionManager
    from holdfast.integrations.strands import HoldfastSessionRepository

    store, hangs = sys.argv[1], sys.argv[2] == "hang"

    class Scripted(Model):
        def update_config(self, **config): ...
        def get_config(self): return {}
        def structured_output(self, *args, **kwargs): raise NotImplementedError

        async def stream(self, messages, *args, **kwargs):
            done = any("toolResult" in part for one in messages for part in one["content"])
            if done and hangs:
                print("waiting", flush=True)
                time.sleep(600)
            yield {"messageStart": {"role": "assistant"}}
            if done:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": f"{len(messages)} seen"}}}
            else:
                use = {"toolUseId": "c1", "name": "look"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if done else "tool_use"}}

    @tool
    def look() -> str:
        "Look."
        return "a tree"

    manager = RepositorySessionManager("trip", HoldfastSessionRepository(store))
    earlier = HoldfastSessionRepository(store).messages("trip") or None
    agent = Agent(model=Scripted(), tools=[look], agent_id="main", session_manager=manager,
                  callback_handler=None, messages=earlier)
    print(str(agent("Look around")).strip(), flush=True)
"""


def test_a_run_that_was_killed_goes_on(programs, store_root):
    """A kill -9 in a real run; the next one is given what was done before."""
    programs.killed(_PROGRAM)
    assert programs.finished(_PROGRAM) == "4 seen\n"
    with holdfast.open(store_root) as hf:
        assert hf.verify("trip").ok
        assert not hf.recover("trip").issues


def test_a_session_of_others_goes_on(programs, store_root):
    """What another framework recorded is given to the agent, and not recorded again."""
    with holdfast.open(store_root) as hf:
        with hf.session("trip") as s:
            s.user("Hello")
            call = s.tool_call("look", {"n": 1})
            s.tool_result(call, "text")
            s.assistant("Done")
        assert programs.finished(_PROGRAM) == "5 seen\n"
        texts = [event.data["content"] for event in hf.events("trip", types={"user", "assistant"})]
    assert texts == ["Hello", "Done", "Look around", "5 seen"]
