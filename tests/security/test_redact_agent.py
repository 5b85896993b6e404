"""Redaction and agents: what was replaced is never taken for what it was."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast.agent import Agent, Tool
from holdfast.agent._execution import ResultCache
from holdfast.agent._run_log import find_leftovers
from holdfast.agent._spec import PluginHost

TOKEN = "gh" + "p_" + "aB3dE5gH" * 4 + "abcd"
MARK = {"redaction": {"mode": "mark"}}


def test_a_call_with_a_mark_is_not_run_again():
    """A call that a process left undone is not repeated with a mark in the place of a secret."""
    with holdfast.open("memory:", config=MARK) as hf, hf.session("a") as session:
        session.append("turn_start", {})
        session.tool_call("fetch", {"token": TOKEN}, id="c1")
        session.tool_call("fetch", {"page": 2}, id="c2")
        begun, unasked = find_leftovers(session)
        assert [call.id for call in begun] == ["c2"]
        assert not any(unasked)


def test_ids_that_look_like_tokens_connect_questions_with_their_calls(tmp_path):
    """Pydantic AI gives a call without an id one of 32 digits; approved, the call is found and made, once."""
    call, ran = ToolCallPart("act", {"what": "a"}, "pyd_ai_1f3870be274f4c49b3e31a0c6728957f"), []

    def act(what: str) -> str:
        """Act."""
        ran.append(what)
        return "done"

    def answer(messages, _info):
        return ModelResponse(parts=[call if len(messages) == 1 else TextPart(str(messages[-1].parts[-1].content))])

    with holdfast.open(tmp_path / "store", config=MARK) as hf:
        agent = Agent(FunctionModel(answer), tools=[Tool(act, needs_permission=True)], permission="suspend", hf=hf)
        with hf.session("a") as session:
            [one] = agent.run_sync("go", session=session).waiting
        assert (agent.resume_sync("a", answers={one.id: True}).output, ran) == ("done", ["a"])
        named = [event.data["call"] for event in hf.events("a", types=["suspended", "permission", "step"])]
        assert named == [call.tool_call_id] * 3
        with hf.session("b") as session:
            key = f"call:{call.tool_call_id}"
            assert session.once(key, act, "b") == session.once(key, act, "b") == "done"


def test_a_result_with_a_mark_is_not_used_again(tmp_path):
    """A result from the log that was redacted is asked for anew."""

    class Cached:
        name, cache_ms = "fetch", 10**9

    with holdfast.open(tmp_path / "store", config=MARK) as hf:
        with hf.session("a") as session:
            for id, page, result in (("c1", 1, f"got {TOKEN}"), ("c2", 2, "got nothing")):
                session.tool_call("fetch", {"page": page}, id=id)
                session.tool_result(id, result)
        with hf.session("a") as session:
            cache = ResultCache(session, {"fetch"})
            assert cache.find(Cached, {"page": 1}) is None
            assert cache.find(Cached, {"page": 2}) == ("got nothing",)


def test_lasting_state_of_plugins_has_no_secrets(tmp_path):
    """What a plugin keeps beside sessions is redacted like what is in them."""

    class Notes:
        name, version, scope = "notes", 1, "persistent"

        def get_state(self):
            return {"token": TOKEN}

        def restore_state(self, state, version):
            raise AssertionError((state, version))

    with holdfast.open(tmp_path / "store", config=MARK) as hf, hf.session("a") as session:
        documents = hf.store.documents("agents/helper")
        PluginHost([Notes()], session, documents).save()
        kept = b"".join(documents.get(name)[0] for name in documents.names())
        assert b"[secret:github_pat:" in kept
        assert TOKEN.encode() not in kept
