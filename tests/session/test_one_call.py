"""One id in one run is one call, whoever recorded it first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from holdfast.replay import PROVIDERS, validate

INTERRUPTED = "interrupted"


def ask(*calls, text="let me look"):
    """The content of an assistant's message that asks for tools."""
    uses = [{"type": "tool_use", "id": id, "name": name, "input": args} for id, name, args in calls]
    return [{"type": "text", "text": text}, *uses]


def answer(id, content):
    """A result as a block of a user's message."""
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def results(messages):
    """By call id, what the list tells of its outcome; fails if a call has not exactly one."""
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    asked = [b["id"] for b in blocks if b["type"] == "tool_use"]
    found = [(b["tool_use_id"], b["content"]) for b in blocks if b["type"] == "tool_result"]
    assert [id for id, _ in found] == asked
    return dict(found)


def test_a_tool_run_with_the_id_of_a_block_is_that_call(hf):
    """The usual loop: a message with its blocks, then each tool by the id that the model gave."""
    with hf.session("a") as s:
        s.user("q")
        s.assistant(ask(("toolu_1", "bash", {})))
        with s.tool("bash", {}, id="toolu_1") as call:
            call.result = "OK"
        assert results(s.messages()) == {"toolu_1": "OK"}
    assert results(hf.recover("a").messages) == {"toolu_1": "OK"}
    assert hf.recover("a").issues == []


@pytest.mark.parametrize("verb", ["tool", "tool_call"])
def test_a_call_without_an_id_takes_over_the_one_that_was_asked_for(hf, verb):
    """Without an id, it is the open call of the last message with that tool and arguments."""
    with hf.session("a") as s:
        s.user("q")
        s.assistant(ask(("c1", "read", {"path": "a"}), ("c2", "read", {"path": "b"})))
        for path in "ba":
            if verb == "tool":
                with s.tool("read", {"path": path}) as call:
                    call.result = path.upper()
            else:
                s.tool_result(s.tool_call("read", {"path": path}), path.upper())
        assert results(s.messages()) == {"c1": "A", "c2": "B"}
        assert [m["role"] for m in s.messages()] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("asked", "tool", "args"),
    [
        ([("c1", "read", {"path": "a"})], "read", {"path": "z"}),
        ([("c1", "read", {"path": "a"})], "write", {"path": "a"}),
        ([("c1", "read", {}), ("c2", "read", {})], "read", {}),
    ],
    ids=["other arguments", "another tool", "two that fit"],
)
def test_what_was_not_asked_for_is_a_call_of_its_own(hf, asked, tool, args):
    """With no call that fits, or several, nothing is guessed."""
    with hf.session("a") as s:
        s.user("q")
        s.assistant(ask(*asked))
        with s.tool(tool, args) as call:
            call.result = "OK"
        assert call.id not in {id for id, _, _ in asked}
        told = results(s.messages())
    assert told.pop(call.id) == "OK"
    assert all(INTERRUPTED in content for content in told.values())


def test_a_call_that_runs_is_not_taken_over_a_second_time(hf):
    """The same tool with the same arguments inside of the call is another call."""
    with hf.session("a") as s:
        s.user("q")
        s.assistant(ask(("c1", "read", {})))
        with s.tool("read", {}) as outer:
            with s.tool("read", {}) as inner:
                inner.result = "in"
            outer.result = "out"
        assert (outer.id, inner.id != "c1") == ("c1", True)


def test_an_answered_call_is_not_taken_over(hf):
    """Once the call has its result, the same tool with the same arguments is a new call."""
    with hf.session("a") as s:
        s.user("q")
        s.assistant(ask(("c1", "read", {})))
        s.user([answer("c1", "OK")])
        with s.tool("read", {}) as call:
            call.result = "again"
        assert results(s.messages()) == {"c1": "OK", call.id: "again"}


def test_only_the_last_message_is_looked_at(hf):
    """A call of an earlier message is not taken over by name, and runs of other agents neither."""
    with hf.session("a") as s:
        s.user("q")
        s.assistant(ask(("c1", "read", {})))
        s.assistant("never mind")
        s.assistant(ask(("d1", "read", {})), run="d-1")
        assert s.tool_call("read", {}).id not in {"c1", "d1"}
        assert s.tool_call("read", {}, run="d-1").id == "d1"


@pytest.mark.parametrize("first", ["one after the other", "in parallel"])
def test_calls_of_one_message_stay_in_it(hf, first):
    """However its calls run, the model gets its message back as it was."""
    with hf.session("a") as s:
        s.user("q")
        said = ask(("c1", "read", {"n": 1}), ("c2", "read", {"n": 2}))
        s.assistant(said)

        def run(n):
            with s.tool("read", {"n": n}, id=f"c{n}") as call:
                call.result = str(n)

        if first == "in parallel":
            threads = [threading.Thread(target=run, args=(n,)) for n in (2, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            run(1)
            assert INTERRUPTED in results(s.messages())["c2"]
            run(2)
        assert s.messages()[1] == {"role": "assistant", "content": said}
        assert results(s.messages()) == {"c1": "1", "c2": "2"}


def test_a_message_that_is_recorded_after_its_call_has_it(hf):
    """Whoever records the model's message last, after its tools ran, gets the same conversation."""
    with hf.session("a") as s:
        s.user("q")
        with s.tool("read", {"n": 1}, id="c1") as call:
            call.result = "OK"
        assert results(s.messages()) == {"c1": "OK"}
        said = ask(("c1", "read", {"n": 1}))
        s.assistant(said)
        expected = [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": said},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "OK"}]},
        ]
        assert s.messages() == expected
        assert s.messages(incomplete="drop") == expected
    assert hf.recover("a").messages == expected


def test_ids_that_a_model_uses_again_in_each_turn_are_different_calls(hf):
    """Some models number their calls from one in each turn: no result is lost or mixed up."""
    with hf.session("a") as s:
        for turn in "xyz":
            s.user(turn)
            s.assistant(ask(("call_1", "read", {"path": "a"})))
            if turn != "x":
                with s.tool("read", {"path": "a"}, id="call_1") as call:
                    call.result = turn
        told = list(results(s.messages()).values())
    assert INTERRUPTED in told[0]
    assert told[1:] == ["y", "z"]


def test_arguments_that_were_edited_are_told(hf):
    """The model gets its own arguments back; what was done instead is among the issues."""
    with hf.session("a") as s:
        s.user("q")
        said = ask(("c1", "rm", {"path": "/"}))
        s.assistant(said)
        with s.tool("rm", {"path": "/tmp/x"}, id="c1") as call:
            call.result = "gone"
    found = hf.recover("a")
    assert found.messages[1]["content"] == said
    assert [issue.type for issue in found.issues] == ["other_arguments"]
    assert found.issues[0].content["input"] == {"path": "/tmp/x"}


def test_a_call_that_is_begun_again_after_a_crash_is_the_same_call(hf, store_root):
    """A second attempt under the same id answers the call; the repeat is told."""
    kill_in_tool(store_root)
    with hf.session("a") as s:
        s.user("go on")
        with s.tool("bash", {"n": 1}) as call:
            call.result = "OK"
        assert call.id == "c1"
        assert results(s.messages()) == {"c1": "OK"}
    assert [issue.type for issue in hf.recover("a").issues] == ["repeated_tool_call"]


def test_a_killed_call_is_told_by_default(hf, store_root):
    """After kill -9 inside of a tool every provider's list says that the outcome is unknown."""
    kill_in_tool(store_root)
    for provider in PROVIDERS:
        messages = hf.recover("a", provider).messages
        assert validate(messages, provider).valid
        assert INTERRUPTED in json.dumps(messages)
    with hf.session("a", read_only=True) as s:
        assert results(s.messages()) == {"c1": "(interrupted: whether this call took effect is unknown)"}


def kill_in_tool(root):
    """Run a loop in a process of its own that is killed inside of its tool."""
    code = """
        import os, signal, sys, holdfast
        with holdfast.open(sys.argv[1]).session("a") as s:
            s.user("q")
            s.assistant([{"type": "tool_use", "id": "c1", "name": "bash", "input": {"n": 1}}])
            with s.tool("bash", {"n": 1}, id="c1"):
                os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), os.fspath(root)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_pending_calls_are_those_without_a_result(hf):
    """The state names every open call, and tells those that were begun from those asked for."""
    with hf.session("a") as s:
        s.user("q")
        s.assistant(ask(("c1", "read", {}), ("c2", "read", {"n": 2}), ("c3", "read", {"n": 3})))
        s.tool_call("read", {}, id="c1")
        s.user([answer("c3", "3")])
        pending = s.state.pending_calls
        assert {id: call.begun for id, call in pending.items()} == {"c1": True, "c2": False}
        s.tool_result("c1", "1")
        s.tool_result("c2", "2")
        assert s.state.pending_calls == {}
        assert s.state.status == "idle"
