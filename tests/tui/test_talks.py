"""What is told of answers that run beside the app."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from holdfast.apps.tui._app import AppTalks


class Stream:
    """An answer of one word, which may fail after it."""

    result = SimpleNamespace(pause="", waiting=[], usage=None)

    def __init__(self, error):
        self._error = error

    async def __aiter__(self):
        yield "word"
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    ("error", "told"),
    [(None, ("ended", "")), (ValueError("no such model"), ("failed", "no such model"))],
    ids=["ended", "failed"],
)
def test_an_answer_is_over_when_its_end_is_told(error, told):
    """Whoever hears of it asks at once whether it still runs, and begins the next."""
    agent = SimpleNamespace(
        run_stream=lambda _: nullcontext(Stream(error)), session=None, closed=False, close=lambda: None
    )
    maker = SimpleNamespace(
        choice=SimpleNamespace(name="scripted"),
        model=nullcontext(),
        agent_for=lambda _: None,
        make=lambda *_, load: agent,
    )
    heard, ended = [], threading.Event()

    def tell(session_id, what, detail):
        heard.append((what, str(detail), talks.is_running(session_id)))
        if what in ("ended", "failed"):
            ended.set()

    talks = AppTalks(lambda: maker, tell)
    talks.say("a", "hi")
    assert ended.wait(120)
    talks.close()
    assert [(what, runs) for what, _, runs in heard[:-1]] == [("began", True), ("piece", True)]
    assert heard[-1] == (*told, False)
