"""What a type checker knows of the public names. mypy reads this file; nobody runs it.

A change here is a change of the API: see "What may change" in CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import holdfast
from holdfast.replay import State


def library() -> None:
    """Opening, listing, reading."""
    with holdfast.open("memory:") as hf:
        assert_type(hf, holdfast.Holdfast)
        assert_type(hf.exists("a"), bool)
        assert_type(hf.state("a"), State)
        assert_type(hf.recover("a"), holdfast.Recovery)
        events: Iterator[holdfast.Event] = iter(hf.events("a", types=["user"], limit=1))
        for event in events:
            assert_type(event.seq, int)
            assert_type(event.type, str)
            assert_type(event.data, dict[str, Any])
        for row in hf.list(limit=5):
            assert_type(row, holdfast.SessionMetadata)
            assert_type(row.title, str | None)


def session(hf: holdfast.Holdfast) -> None:
    """Recording and reading back."""
    with hf.session("a") as s:
        assert_type(s, holdfast.Session)
        assert_type(s.user("hi"), holdfast.Event)
        assert_type(s.assistant("hello"), holdfast.Event)
        assert_type(s.restored, bool)
        assert_type(s.messages("anthropic"), list[dict[str, Any]])
        assert_type(s.memory.get("x"), Any)
        s.flush()


async def asynchronous(hf: holdfast.Holdfast) -> None:
    """The same, awaited."""
    async with hf.session("a") as s:
        await s.aflush()


def mending() -> None:
    """Message lists of any make."""
    mended = holdfast.sanitize([{"role": "user", "content": "hi"}])
    assert_type(mended, holdfast.Sanitized)
    assert_type(mended.recovered, bool)
    assert_type(holdfast.validate(mended.messages).valid, bool)
    assert_type(holdfast.format_issues(mended.issues), str)


def errors(error: holdfast.HoldfastError) -> None:
    """Every error says what to do."""
    assert_type(error.code, str)
    assert_type(error.remedy, str)


async def agents(hf: holdfast.Holdfast) -> None:
    """An agent on a session."""
    with holdfast.Agent("test", agent_id="a", persistent_session=True, hf=hf) as agent:
        result = await agent.run("hi")
        assert_type(result.session_id, str | None)
