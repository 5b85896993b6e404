"""OpenTelemetry: traces with the names of generative AI, and the metrics of Prometheus."""

from __future__ import annotations

import asyncio
import json

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.scripts import scripted

from holdfast.agent import Agent
from holdfast.errors import Damaged
from holdfast.integrations.otel import observe, trace_session
from holdfast.observe import METRICS, _otel

SECRET = "the words that were said"


class Telemetry:
    """An SDK of the test's own, and what it was given."""

    def __init__(self):
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    def observe(self, hf, **options):
        """Begin; what ends it."""
        return observe(hf, tracer_provider=self.traces, meter_provider=self.meters, **options)

    def spans(self, prefix=""):
        """The spans that have ended, by name."""
        found = self.exporter.get_finished_spans()
        return {span.name: span for span in found if span.name.startswith(prefix)}

    def points(self):
        """The points of every metric, by its name."""
        data = self.reader.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def close(self):
        """Let go of it."""
        self.traces.shutdown()
        self.meters.shutdown()


@pytest.fixture
def telemetry():
    """What a program would have set up."""
    found = Telemetry()
    yield found
    found.close()


def talk(session):
    """A turn with a tool, as an agent records it."""
    session.append("config", {"model": "m-1"})
    session.append("turn_start", {"agent": "bot"}, run="r1")
    session.append("user", {"role": "user", "content": SECRET}, run="r1")
    usage = {"input_tokens": 12, "output_tokens": 3}
    said = {"role": "assistant", "content": SECRET, "model": "m-1-0901", "usage": usage}
    session.append("assistant", said, run="r1")
    call = session.tool_call("look", {"at": SECRET}, run="r1")
    session.tool_result(call, SECRET)
    session.append("assistant", {"role": "assistant", "content": "done"}, run="r1")
    session.append("turn_end", {"turn": 0, "reason": "completed"}, run="r1")


def test_a_turn_is_a_trace(hf, telemetry):
    """Turn, answers and tools, one below the other, with GenAI names and the session's id."""
    telemetry.observe(hf)
    with hf.session("trip") as s:
        talk(s)
    spans = telemetry.spans()
    turn, chat, tool = (spans[n] for n in ("invoke_agent bot", "chat m-1", "execute_tool look"))
    for span, operation in ((turn, "invoke_agent"), (chat, "chat"), (tool, "execute_tool")):
        assert span.attributes["gen_ai.conversation.id"] == "trip"
        assert span.attributes["gen_ai.operation.name"] == operation
        assert span.context.trace_id == turn.context.trace_id
        assert span.end_time >= span.start_time
    assert chat.parent.span_id == tool.parent.span_id == turn.context.span_id
    assert turn.parent is None
    assert turn.attributes["gen_ai.agent.name"] == "bot"
    assert tool.attributes["gen_ai.tool.name"] == "look"
    assert tool.attributes["gen_ai.tool.call.id"]
    chats = [s for s in telemetry.exporter.get_finished_spans() if s.name == "chat m-1"]
    assert len(chats) == 2
    first = chats[0].attributes
    assert first["gen_ai.request.model"] == "m-1"
    assert first["gen_ai.response.model"] == "m-1-0901"
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.output_tokens"]) == (12, 3)


@pytest.mark.parametrize("content", [False, True])
def test_words_only_when_asked_for(hf, telemetry, content):
    """What was said, asked of tools and given by them is in spans only with ``content``."""
    telemetry.observe(hf, content=content)
    with hf.session("trip") as s:
        talk(s)
    told = json.dumps([dict(s.attributes) for s in telemetry.exporter.get_finished_spans()])
    assert told.count(SECRET) == (3 if content else 0)


def test_a_turn_belongs_to_what_the_program_does(hf, telemetry):
    """The span that is current when a turn begins is above it; so it is with a flush."""
    telemetry.observe(hf)
    tracer = telemetry.traces.get_tracer("program")
    with tracer.start_as_current_span("request") as request, hf.session("trip") as s:
        talk(s)
        s.snapshot()
    spans = telemetry.spans()
    above = request.get_span_context().span_id
    assert spans["invoke_agent bot"].parent.span_id == above
    assert spans["holdfast.load"].parent.span_id == above
    snapshot = spans["holdfast.snapshot"]
    assert snapshot.parent.span_id == above
    inner = [s for s in telemetry.exporter.get_finished_spans() if s.name == "holdfast.flush"]
    assert inner[0].parent.span_id == snapshot.context.span_id
    assert any(event.name == "holdfast.snapshot_created" for event in snapshot.events)


async def test_operations_of_an_event_loop(hf, telemetry):
    """``aflush`` has its span, and its sync, which ends on another thread, has one."""
    telemetry.observe(hf)
    async with hf.session("a") as s:
        s.user("x")
        await asyncio.gather(s.aflush(), s.aflush())
    assert {"holdfast.flush", "holdfast.sync"} <= set(telemetry.spans())
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_what_failed_is_marked(hf, telemetry, store_root):
    """Tools, turns and openings that failed have an error, named by its code and not its words."""
    telemetry.observe(hf)
    with hf.session("a") as s:
        s.append("turn_start", {"agent": "bot"}, run="r")
        call = s.tool_call("t", {}, run="r")
        s.tool_result(call, SECRET, is_error=True)
        s.append("agent_error", {"agent": "bot", "error": {"code": "oops"}}, run="r")
        s.append("turn_end", {"turn": 0, "reason": "failed"}, run="r")
    log = store_root / "sessions" / "a" / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"bot"', b'"bat"'))
    with pytest.raises(Damaged):
        hf.session("a")
    found = telemetry.exporter.get_finished_spans()
    bad = {span.name: span.attributes["error.type"] for span in found if not span.status.is_ok}
    assert bad == {"execute_tool t": "tool_error", "invoke_agent bot": "failed", "holdfast.load": Damaged.code}


def test_what_was_not_needed_is_no_span(hf, telemetry):
    """Opening what is open already, and a snapshot of what has one, are told to nobody."""
    telemetry.observe(hf)
    with hf.session("a") as s:
        s.user("x")
        s.snapshot()
        s.snapshot()
        with hf.session("a"):
            pass
    names = [span.name for span in telemetry.exporter.get_finished_spans()]
    assert (names.count("holdfast.load"), names.count("holdfast.snapshot")) == (1, 1)
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_what_never_ended(hf, telemetry):
    """A session that is closed ends what is open in it; so does the end of observing."""
    stop = telemetry.observe(hf)
    with hf.session("a") as s:
        s.append("turn_start", {}, run="r")
        s.tool_call("t", {}, run="r")
        s.append("turn_start", {}, run="q")
    assert telemetry.spans()["execute_tool t"].attributes["error.type"] == "closed"
    assert telemetry.spans()["invoke_agent"].attributes["error.type"] == "closed"
    s = hf.session("b")
    s.append("turn_start", {"agent": "late"})
    stop()
    assert "invoke_agent late" in telemetry.spans()
    s.close()


def test_a_delegate_is_a_span_of_its_own(hf, telemetry):
    """An agent that another one called is below it, and ends when it is done or has failed."""
    telemetry.observe(hf)
    with hf.session("a") as s:
        s.append("turn_start", {"agent": "boss"}, run="r")
        s.append("agent_start", {"agent": "boss", "depth": 0}, run="r")
        for child, end in (("one", "agent_complete"), ("two", "agent_error")):
            s.append("agent_start", {"agent": child, "parent": "boss", "depth": 1}, run=child)
            s.append(end, {"agent": child, "error": {"code": "oops"}}, run=child)
        s.append("turn_end", {"reason": "completed"}, run="r")
    spans = telemetry.spans("invoke_agent")
    boss = spans["invoke_agent boss"]
    for name in ("one", "two"):
        assert spans[f"invoke_agent {name}"].parent.span_id == boss.context.span_id
    assert spans["invoke_agent one"].status.is_ok
    assert spans["invoke_agent two"].attributes["error.type"] == "oops"


def test_open_spans_are_bounded(hf, telemetry, monkeypatch):
    """What nobody ends is given up, oldest first."""
    monkeypatch.setattr(_otel, "_OPEN_MAX", 2)
    telemetry.observe(hf)
    with hf.session("a") as s:
        for number in range(4):
            s.append("turn_start", {"agent": f"a{number}"}, run=f"r{number}")
        assert set(telemetry.spans("invoke")) == {"invoke_agent a0", "invoke_agent a1"}


def test_a_recorded_session_can_be_traced_later(hf, telemetry):
    """The traces are those of the day: the times are those of the events."""
    with hf.session("trip") as s:
        talk(s)
        started = next(event for event in s.events() if event.type == "turn_start").timestamp
    trace_session(hf, "trip", tracer_provider=telemetry.traces)
    spans = telemetry.spans()
    assert spans["invoke_agent bot"].start_time == started * 1_000_000
    assert {"chat m-1", "execute_tool look"} <= set(spans)


@pytest.mark.parametrize(
    ("model", "provider"), [("claude-sonnet-4-5", "anthropic"), ("openai:gpt-5", "openai"), ("m-1", None)]
)
def test_whose_model_it_was(hf, telemetry, model, provider):
    """The provider is named where the name of the model tells it."""
    telemetry.observe(hf)
    with hf.session("a") as s:
        s.user("x")
        s.assistant("y", model=model)
    chat = telemetry.spans()[f"chat {model}"]
    assert chat.attributes.get("gen_ai.provider.name") == provider


def test_events_of_any_shape(hf, telemetry):
    """Events of others, with anything in them, disturb nothing."""
    telemetry.observe(hf, content=True)
    with hf.session("a") as s:
        s.append("turn_start", {"agent": 5})
        s.append("agent_start", {"agent": None})
        s.append("user", {"content": []})
        s.append("assistant", {"content": [1], "usage": "much", "model": ["m"]})
        s.append("agent_error", {"agent": "x", "error": "words"})
        s.append("tool_result", {"toolCallId": "nobody", "result": 1})
        s.append("turn_end", {"reason": 7})
        s.append("config", {"model": 3})
    assert {"chat", "invoke_agent"} <= {name.strip() for name in telemetry.spans()}


def test_the_same_metrics_as_prometheus(hf, telemetry):
    """Names with dots, and units; counts, times, sizes, sessions that are open, the index's lag."""
    telemetry.observe(hf)
    with hf.session("a") as s:
        talk(s)
        s.snapshot()
        hf.list()
        s.user("more")
        points, size = telemetry.points(), hf.store.log("sessions/a").size()
    assert points["holdfast.events"][0].value == 9
    assert points["holdfast.bytes"][0].value == size
    assert points["holdfast.snapshots"][0].attributes == {"result": "ok"}
    for name in ("append", "flush", "sync", "load", "snapshot"):
        assert points[f"holdfast.{name}.duration"][0].count > 0, name
    assert points["holdfast.snapshot.size"][0].sum > 0
    assert points["holdfast.sessions.active"][0].value == 1
    assert points["holdfast.sessions"][0].value == 1
    assert points["holdfast.index.lag.bytes"][0].value > 0
    assert points["holdfast.disk.free.bytes"][0].value > 0
    assert set(points) - {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"} <= {
        metric.otel for metric in METRICS.values()
    }
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert tokens == {"input": 12, "output": 3}


def test_a_store_that_is_closed_is_not_asked(hf, telemetry):
    """Metrics may be collected after the end; what is gone is not looked at."""
    stop = telemetry.observe(hf)
    telemetry.points()
    hf.close()
    assert "holdfast.sessions" not in telemetry.points()
    stop()
    assert telemetry.points()["holdfast.sessions.active"][0].value == 0


async def test_an_agents_turn_is_traced(hf, telemetry):
    """An agent's own turn makes the same spans, and no word about it is needed."""
    telemetry.observe(hf)

    def look(at: str) -> str:
        """Look."""
        return f"seen {at}"

    model = scripted([("look", {"at": "x"})], "done")
    agent = Agent(model, name="bot", tools=[look], hf=hf)
    with hf.session("trip") as s:
        said = [piece async for piece in agent.run_stream("go", session=s)]
    assert "".join(said).strip() == "done"
    spans = telemetry.spans()
    assert "execute_tool look" in spans
    assert "invoke_agent bot" in spans
    assert spans["execute_tool look"].parent.span_id == spans["invoke_agent bot"].context.span_id
    chats = [s for s in telemetry.exporter.get_finished_spans() if s.name.startswith("chat ")]
    assert len(chats) == 2
