"""Fixtures of the agent room: a library on files, and models that follow a script."""

from __future__ import annotations

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel


class Script:
    """A model that answers with the next step of a script, and remembers what it was asked.

    A step is a text, a list of calls ``(name, args)`` or ``(name, args, id)``, an exception to
    raise, or a function of the messages that gives one of these. The last step is repeated.
    """

    def __init__(self, *steps):
        self.steps = list(steps)
        self.requests = []
        self.infos = []
        self.count = 0
        self.model = FunctionModel(self._answer, stream_function=self._stream, model_name="script")

    def _next(self, messages, info):
        self.requests.append(messages)
        self.infos.append(info)
        step = self.steps[min(self.count, len(self.steps) - 1)]
        self.count += 1
        if callable(step):
            step = step(messages)
        if isinstance(step, Exception):
            raise step
        return step

    def _answer(self, messages, info):
        step = self._next(messages, info)
        if isinstance(step, ModelResponse):
            return step
        if isinstance(step, str):
            return ModelResponse(parts=[TextPart(step)])
        calls = enumerate(step)
        return ModelResponse(parts=[ToolCallPart(*self._call(n, call)) for n, call in calls])

    def _call(self, number, call):
        name, args, *given = call
        return name, args, given[0] if given else f"call-{self.count}-{number}"

    async def _stream(self, messages, info):
        step = self._next(messages, info)
        if isinstance(step, str):
            for word in step.split(" "):
                yield word + " "
            return
        for number, call in enumerate(step):
            name, args, call_id = self._call(number, call)
            import json

            yield {number: DeltaToolCall(name=name, json_args=json.dumps(args), tool_call_id=call_id)}


@pytest.fixture
def script():
    """Makes a scripted model."""
    return Script


def said(message):
    """The text of a request or response of the engine, part by part."""
    return [str(getattr(part, "content", getattr(part, "args", ""))) for part in message.parts]


@pytest.fixture
def texts():
    """Reads what a request says."""
    return lambda messages: [text for message in messages for text in said(message)]


def types_of(session):
    """The types of a session's events, without what every opening records."""
    skipped = {"session_start", "opened", "config", "instructions"}
    return [event.type for event in session.events() if event.type not in skipped]


@pytest.fixture
def types():
    """Lists the types of a session's events."""
    return types_of
