"""Structured logs: session ids, and no words of sessions unless they are asked for."""

from __future__ import annotations

import io
import json
import logging

import pytest

from holdfast._config import KEYS
from holdfast.errors import NotFound
from holdfast.model import Notice
from holdfast.observe import LEVELS, JsonFormatter, LogObserver, TextFormatter, log_to

SECRET = "the words that were said"


class Lines(logging.Handler):
    """Keeps what a formatter made."""

    def __init__(self, formatter):
        super().__init__()
        self.setFormatter(formatter)
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


@pytest.fixture
def logged(hf, request):
    """The lines of everything that happens in the store, with a formatter and options."""

    def begin(formatter=None, level=logging.DEBUG, **options):
        logger = logging.Logger(request.node.name, level)  # noqa: LOG001 - of this test alone
        handler = Lines(formatter or JsonFormatter())
        logger.addHandler(handler)
        hf.observe(LogObserver(logger, **options))
        return handler.lines

    return begin


def test_each_line_is_json_with_the_session(hf, logged):
    """Each says when, how loud, what, and of which session; events only their type and size."""
    lines = logged()
    with hf.session("a") as s:
        s.user(SECRET)
        s.snapshot()
    found = [json.loads(line) for line in lines]
    assert {"at", "level", "logger", "event", "session_id"} <= set.intersection(*map(set, found))
    assert {one["session_id"] for one in found} == {"a"}
    created = next(one for one in found if one["event"] == "snapshot_created")
    assert created["level"] == "info"
    assert created["size_bytes"] > 0
    user = next(one for one in found if one.get("type") == "user")
    assert user["level"] == "debug"
    assert SECRET not in "".join(lines)


def test_words_only_when_asked_for(hf, logged):
    """With ``content`` an event's data is in the line."""
    lines = logged(content=True)
    with hf.session("a") as s:
        s.user(SECRET)
    assert SECRET in "".join(lines)


def test_notices_lose_what_may_be_words(hf, logged):
    """Messages of exceptions and names of variables are left out; codes stay."""
    lines = logged(level=logging.INFO)
    detail = {"code": "SNAPSHOT_ERROR", "message": SECRET, "name": SECRET}
    hf._core.hub.publish("a", Notice("snapshot_failed", "a", detail))
    told = json.loads(lines[0])
    assert (told["event"], told["level"], told["code"]) == (
        "snapshot_failed", "error", "SNAPSHOT_ERROR",
    )  # fmt: skip
    assert SECRET not in lines[0]
    hf._core.hub.publish("a", Notice("torn_tail", "a", {"bytes": 3}))
    assert json.loads(lines[1])["level"] == "warning"


@pytest.mark.parametrize("content", [False, True])
def test_failures_are_told_by_their_code(hf, logged, content):
    """An operation that failed is an error with its code; its message only when asked for."""
    lines = logged(content=content)
    with pytest.raises(NotFound):
        hf.session("nobody", resume="always")
    told = json.loads(lines[-1])
    assert (told["event"], told["operation"], told["code"]) == (
        "operation_failed", "load", NotFound.code,
    )  # fmt: skip
    assert ("message" in told) == content


def test_events_cost_nothing_where_nobody_reads_them(hf, logged):
    """Above DEBUG there is no line for an event."""
    lines = logged(level=logging.INFO)
    with hf.session("a") as s:
        s.user("x")
        s.snapshot()
    assert {json.loads(line)["event"] for line in lines} == {"snapshot_created"}


def test_as_text(hf, logged):
    """For people: one line with what belongs to it, each line by itself whatever it holds."""
    lines = logged(TextFormatter(), content=True)
    with hf.session("a") as s:
        s.user("two\nlines")
    assert any(" DEBUG lease_acquired a epoch=" in line for line in lines)
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_records_of_others(formatter):
    """A record that is not ours has its message, and its exception."""
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        trouble = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "hello %s", ("you",), trouble)
    line = formatter.format(record)
    assert "hello you" in line
    if isinstance(formatter, JsonFormatter):
        assert "ValueError" in json.loads(line)["exception"]


@pytest.mark.parametrize(("form", "begins"), [("json", "{"), ("text", "2")])
def test_to_a_stream(hf, form, begins):
    """What a service writes on standard error: from a level on, in one form or the other."""
    stream = io.StringIO()
    hf.observe(log_to(stream, "info", form))
    with hf.session("a") as s:
        s.user("x")
        s.snapshot()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(begins)
    assert "snapshot_created" in line
    assert log_to(stream, "off") is None


def test_the_settings_know_all_levels():
    """What may be set is what there is."""
    assert KEYS["log.level"].choices == LEVELS
