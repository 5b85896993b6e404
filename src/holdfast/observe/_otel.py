"""Sessions as OpenTelemetry sees them. Loaded only by those who use it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import msgspec
from opentelemetry import context, metrics, trace
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from holdfast.library import Holdfast
from holdfast.model import VERSION, Event, Notice
from holdfast.observe._figures import METRICS, Figures, add_health
from holdfast.observe._watcher import Watching, code_of
from holdfast.session import Finished

_SCOPE = "holdfast"
# An append is too small to be a span of its own; that it took long is in the metrics.
_SPANNED = frozenset({"flush", "sync", "snapshot", "load"})
# A sync may end on another thread than it began.
_NESTING = frozenset({"flush", "snapshot", "load"})
_OF_STORE = ("up", "sessions", "index_lag_sessions", "index_lag_bytes", "disk_free_bytes")
_LOOK_S = 1.0


def observe(
    hf: Holdfast,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
    store: bool = True,
) -> Callable[[], None]:
    """Give traces and metrics of what sessions of ``hf`` do from now on to OpenTelemetry.

    Without providers the program's global ones are used. A trace has a span for each turn, answer of the model and
    use of a tool, with the names that OpenTelemetry has for generative AI, and one for each flush, sync, snapshot and
    opening. What was said is left out unless ``content`` is true. With ``store``, how many sessions there are and how
    far the catalogue is behind is looked up whenever metrics are collected. Returns a function that ends it.
    """
    observer = OtelObserver(tracer_provider, meter_provider, content=content)
    if store:
        observer.ask(hf)
    stop = hf.observe(observer)

    def end() -> None:
        stop()
        observer.close()

    return end


def trace_session(
    hf: Holdfast, session_id: str, *, tracer_provider: TracerProvider | None = None, content: bool = False
) -> None:
    """Make the traces of a recorded session, with the times of its events. Raises NotFound if there is none."""
    spans = _Spans(trace.get_tracer(_SCOPE, VERSION, tracer_provider), None, content=content)
    for event in hf.events(session_id):
        spans.take(session_id, event)
    spans.end()


class OtelObserver(Watching):
    """An observer that tells OpenTelemetry."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
    ) -> None:
        meter = self._meter = metrics.get_meter(_SCOPE, VERSION, meter_provider)
        self._tracer = trace.get_tracer(_SCOPE, VERSION, tracer_provider)
        clients = _Clients(
            meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of the model."),
            meter.create_histogram("gen_ai.client.operation.duration", "s", "Time of the model."),
        )
        self._spans = _Spans(self._tracer, clients, content=content)
        self._asked: Holdfast | None = None
        self._looked_at = float("-inf")
        self._figures = Figures()
        super().__init__(_Instruments(meter))
        active = METRICS["holdfast_sessions_active"]
        meter.create_observable_gauge(active.otel, [lambda _: [Observation(self.active)]], active.unit, active.help)

    def ask(self, hf: Holdfast) -> None:
        """Look at a store whenever metrics are collected."""
        self._asked = hf
        for metric in (METRICS[f"holdfast_{name}"] for name in _OF_STORE):
            look = partial(self._look, metric.name)
            self._meter.create_observable_gauge(metric.otel, [look], metric.unit, metric.help)

    def begin(self, operation: str, session_id: str) -> Any:
        if operation not in _SPANNED:
            return None
        span = self._tracer.start_span(f"holdfast.{operation}", attributes={CONVERSATION: session_id})
        if operation not in _NESTING:
            return span, None
        return span, context.attach(trace.set_span_in_context(span))

    def end(self, begun: Any, done: Finished) -> None:
        super().end(begun, done)
        if begun is None:
            return
        span, token = begun
        if token is not None:
            context.detach(token)
        if done.idle:  # a span that never ends is never told
            return
        if done.error is not None:
            _fail(span, code_of(done.error))
        if done.restored:
            span.set_attribute("holdfast.restored", True)
        span.end()

    def tell(self, session_id: str, item: Event | Notice) -> None:
        super().tell(session_id, item)
        if isinstance(item, Event):
            self._spans.take(session_id, item)
        else:
            trace.get_current_span().add_event(f"holdfast.{item.kind}", {CONVERSATION: session_id})

    def close(self) -> None:
        self._watched, self._asked = (), None
        self._spans.end()

    def _look(self, name: str, _: CallbackOptions) -> Iterable[Observation]:
        hf = self._asked
        if hf is None or hf.closed:
            return []
        now = time.monotonic()
        if now - self._looked_at > _LOOK_S:  # all gauges of one collection are of one look
            self._looked_at, self._figures = now, Figures()
            add_health(self._figures, [hf])
        return [Observation(value) for value in self._figures.values(name).values()]


class _Instruments:
    """The sink whose figures go to a meter."""

    def __init__(self, meter: Meter) -> None:
        self._counters = {
            name: meter.create_counter(metric.otel, metric.unit, metric.help)
            for name, metric in METRICS.items()
            if metric.kind == "counter"
        }
        self._histograms = {
            name: meter.create_histogram(
                metric.otel, metric.unit, metric.help, explicit_bucket_boundaries_advisory=list(metric.buckets)
            )
            for name, metric in METRICS.items()
            if metric.kind == "histogram"
        }

    def add(self, name: str, amount: float = 1, *labels: str) -> None:
        self._counters[name].add(amount, dict(zip(METRICS[name].labels, labels, strict=True)))

    def observe(self, name: str, value: float, *labels: str) -> None:
        self._histograms[name].record(value, dict(zip(METRICS[name].labels, labels, strict=True)))


# Traces made of recorded events: turns, answers of the model and uses of tools.
#
# The names are those of OpenTelemetry's conventions for generative AI. They are still being worked on, and their
# module says so with its name; the few that are needed are here.
CONVERSATION = "gen_ai.conversation.id"
_OPERATION = "gen_ai.operation.name"
_AGENT = "gen_ai.agent.name"
_PROVIDER = "gen_ai.provider.name"
_MODEL = "gen_ai.request.model"
_ANSWERED = "gen_ai.response.model"
_INPUT_TOKENS = "gen_ai.usage.input_tokens"
_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
_TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - of a language model
_TOOL = "gen_ai.tool.name"
_CALL = "gen_ai.tool.call.id"
_ARGUMENTS = "gen_ai.tool.call.arguments"
_RESULT = "gen_ai.tool.call.result"
_OUTPUT = "gen_ai.output.messages"
_ERROR = "error.type"

_PROVIDERS = {"claude": "anthropic", "gpt": "openai", "gemini": "gcp.gemini"}
# After one of these the model is at it.
_ASKS = frozenset({"user", "tool_result", "system", "turn_start", "agent_start", "compaction"})
_ENDS = frozenset({"closed", "interrupted"})
_OPEN_MAX = 10_000
_NS_PER_MS = 1_000_000

Key = tuple[str, str, str]  # session, run or call, and which of the two


class _Clients(NamedTuple):
    """The two metrics that the conventions want of a client of models."""

    tokens: Histogram
    seconds: Histogram


class _Spans:
    """Makes a span of each thing in sessions that took time; what was said is left out unless ``content`` is true."""

    def __init__(self, tracer: Tracer, clients: _Clients | None, *, content: bool) -> None:
        self._tracer = tracer
        self._clients = clients
        self._content = content
        self._open: OrderedDict[Key, Span] = OrderedDict()
        self._called: set[Key] = set()
        self._asked: dict[tuple[str, str], int] = {}
        self._models: dict[str, str] = {}
        self._lock = threading.Lock()

    def take(self, session_id: str, event: Event) -> None:
        with self._lock:
            handle = getattr(self, f"_on_{event.type}", None)
            if handle is not None:
                handle(session_id, event)
            if event.type in _ASKS:
                self._asked[session_id, event.run or ""] = event.timestamp
            if event.type in _ENDS:
                for key in [key for key in self._open if key[0] == session_id]:
                    self._finish(key, event, event.type)
                for asked in [key for key in self._asked if key[0] == session_id]:
                    del self._asked[asked]
                self._models.pop(session_id, None)

    def end(self) -> None:
        with self._lock:
            for span in self._open.values():
                span.end()
            for known in (self._open, self._called, self._asked, self._models):
                known.clear()

    # -- turns and agents ----------------------------------------------------------------------
    def _on_turn_start(self, session_id: str, event: Event) -> None:
        self._begin_agent(session_id, event, None)

    def _on_agent_start(self, session_id: str, event: Event) -> None:
        key = (session_id, event.run or "", "run")
        agent = _text(event.data.get("agent"))
        # The turn began before its agent had a name.
        if key in self._open:
            self._open[key].update_name(f"invoke_agent {agent}")
            self._open[key].set_attribute(_AGENT, agent)
            return
        newest = next((span for other, span in reversed(self._open.items()) if other[0] == session_id), None)
        self._begin_agent(session_id, event, newest)
        self._called.add(key)

    def _begin_agent(self, session_id: str, event: Event, parent: Span | None) -> None:
        agent = _text(event.data.get("agent"))
        span = self._begin(session_id, event, f"invoke_agent {agent}", parent)
        if agent:
            span.set_attribute(_AGENT, agent)
        self._keep((session_id, event.run or "", "run"), span)

    def _on_turn_end(self, session_id: str, event: Event) -> None:
        reason = _text(event.data.get("reason")) or "completed"
        bad = reason if reason in ("failed", "cancelled") else None
        self._finish((session_id, event.run or "", "run"), event, bad)
        # Answers after the end of the turn do not belong to it.
        self._asked.pop((session_id, event.run or ""), None)

    def _on_agent_error(self, session_id: str, event: Event) -> None:
        error = event.data.get("error")
        code = _text(error.get("code")) if isinstance(error, dict) else ""
        span = self._open.get((session_id, event.run or "", "run"))
        if span is not None:
            _fail(span, code or "error")
            self._on_agent_complete(session_id, event)

    def _on_agent_complete(self, session_id: str, event: Event) -> None:
        key = (session_id, event.run or "", "run")
        if key in self._called:  # an agent's first turn ends with the turn
            self._finish(key, event, None)

    # -- the model -----------------------------------------------------------------------------
    def _on_config(self, session_id: str, event: Event) -> None:
        model = _text(event.data.get("model"))
        if model:
            self._models[session_id] = model

    def _on_assistant(self, session_id: str, event: Event) -> None:
        asked = self._asked.pop((session_id, event.run or ""), None)
        # The model was not asked since: the call belongs to the answer before.
        if asked is None:
            return
        data = event.data
        answered = _text(data.get("model"))
        model = self._models.get(session_id) or answered
        parent = self._open.get((session_id, event.run or "", "run"))
        span = self._begin(session_id, event, f"chat {model}", parent, kind=SpanKind.CLIENT, began=asked)
        found = data["usage"] if isinstance(data.get("usage"), dict) else {}
        attributes = {
            _PROVIDER: _provider(model),
            _MODEL: model,
            _ANSWERED: answered,
            _INPUT_TOKENS: found.get("input_tokens"),
            _OUTPUT_TOKENS: found.get("output_tokens"),
        }
        kept = {name: value for name, value in attributes.items() if value}
        span.set_attributes(kept)
        if self._content:
            span.set_attribute(_OUTPUT, _json([{"role": "assistant", "content": data.get("content")}]))
        span.end(event.timestamp * _NS_PER_MS)
        self._measure(kept, (event.timestamp - asked) / 1000)

    def _measure(self, kept: dict[str, Any], seconds: float) -> None:
        if self._clients is None:
            return
        base = {_OPERATION: "chat", **({_MODEL: kept[_MODEL]} if _MODEL in kept else {})}
        self._clients.seconds.record(max(seconds, 0), base)
        for kind, name in (("input", _INPUT_TOKENS), ("output", _OUTPUT_TOKENS)):
            if isinstance(kept.get(name), int):
                self._clients.tokens.record(kept[name], {**base, _TOKEN_TYPE: kind})

    # -- tools ---------------------------------------------------------------------------------
    def _on_tool_call(self, session_id: str, event: Event) -> None:
        self._on_assistant(session_id, event)  # an answer that is nothing but calls
        tool, call = _text(event.data.get("tool")), event.id or ""
        parent = self._open.get((session_id, event.run or "", "run"))
        span = self._begin(session_id, event, f"execute_tool {tool}", parent)
        span.set_attributes({_TOOL: tool, _CALL: call})
        if self._content:
            span.set_attribute(_ARGUMENTS, _json(event.data.get("params")))
        self._keep((session_id, call, "call"), span)

    def _on_tool_result(self, session_id: str, event: Event) -> None:
        key = (session_id, event.id or "", "call")
        if self._content and key in self._open:
            self._open[key].set_attribute(_RESULT, _json(event.data.get("result")))
        self._finish(key, event, "tool_error" if event.data.get("is_error") else None)

    # -- inside --------------------------------------------------------------------------------
    def _begin(
        self,
        session_id: str,
        event: Event,
        name: str,
        parent: Span | None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        began: int | None = None,
    ) -> Span:
        """Return a span named after the operation and its subject, if that is known."""
        return self._tracer.start_span(
            name.strip(),
            None if parent is None else trace.set_span_in_context(parent),
            kind,
            {_OPERATION: name.partition(" ")[0], CONVERSATION: session_id},
            start_time=(event.timestamp if began is None else began) * _NS_PER_MS,
        )

    def _keep(self, key: Key, span: Span) -> None:
        """Keep an open span; the oldest of too many are dropped, since nothing will end them."""
        self._open[key] = span
        while len(self._open) > _OPEN_MAX:
            oldest, given_up = self._open.popitem(last=False)
            self._called.discard(oldest)
            given_up.end()

    def _finish(self, key: Key, event: Event, error: str | None) -> None:
        span = self._open.pop(key, None)
        self._called.discard(key)
        if span is not None:
            if error is not None:
                _fail(span, error)
            span.end(event.timestamp * _NS_PER_MS)


def _provider(model: str) -> str:
    """Return the provider of a model, if its name tells."""
    before, colon, _ = model.partition(":")
    return before if colon else _PROVIDERS.get(model.partition("-")[0], "")


def _fail(span: Span, reason: str) -> None:
    span.set_attribute(_ERROR, reason)
    span.set_status(Status(StatusCode.ERROR))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=repr).decode()
