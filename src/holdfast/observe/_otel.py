"""Sessions as OpenTelemetry sees them. Loaded only by those who use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from opentelemetry import context, metrics, trace
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
from opentelemetry.trace import Span, Status, StatusCode, TracerProvider

from holdfast.library import Holdfast
from holdfast.model import VERSION, Event, Notice
from holdfast.observe._figures import Figures
from holdfast.observe._names import METRICS
from holdfast.observe._otel_spans import CONVERSATION, Clients, Spans
from holdfast.observe._store_figures import add_health
from holdfast.observe._watching import Watching, code_of
from holdfast.session import Done, Observers

__all__ = ["OtelObserver", "observe", "trace_session"]

_SCOPE = "holdfast"
# An append is too small to be a span of its own; that it took long is in the metrics.
_SPANNED = frozenset({"flush", "sync", "snapshot", "load"})
# A sync may end on another thread than it began.
_NESTING = frozenset({"flush", "snapshot", "load"})
_OF_STORE = (
    "holdfast_up",
    "holdfast_sessions",
    "holdfast_index_lag_sessions",
    "holdfast_index_lag_bytes",
    "holdfast_disk_free_bytes",
)
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

    Without providers the program's global ones are used. A trace has a span for each turn, answer
    of the model and use of a tool, with the names that OpenTelemetry has for generative AI, and
    one for each flush, sync, snapshot and opening. What was said is left out unless ``content`` is
    true. With ``store``, how many sessions there are and how far the catalogue is behind is looked
    up whenever metrics are collected. Returns a function that ends it.
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
    hf: Holdfast,
    session_id: str,
    *,
    tracer_provider: TracerProvider | None = None,
    content: bool = False,
) -> None:
    """Make the traces of a session that is recorded already, with the times of its events.

    Raises NotFound if there is none.
    """
    tracer = trace.get_tracer(_SCOPE, VERSION, tracer_provider)
    spans = Spans(tracer, None, content=content)
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
        self._spans = Spans(self._tracer, _clients(meter), content=content)
        self._watched: tuple[Observers, ...] = ()
        self._asked: Holdfast | None = None
        self._looked_at = float("-inf")
        self._figures = Figures()
        super().__init__(_Instruments(meter))
        active = METRICS["holdfast_sessions_active"]
        meter.create_observable_gauge(active.otel, [self._count_active], active.unit, active.help)

    def join(self, observers: Observers) -> None:
        """One more store is watched."""
        self._watched = (*self._watched, observers)

    def ask(self, hf: Holdfast) -> None:
        """Look at a store whenever metrics are collected."""
        self._asked = hf
        for name in _OF_STORE:
            metric = METRICS[name]
            look = partial(self._look, name)
            self._meter.create_observable_gauge(metric.otel, [look], metric.unit, metric.help)

    def begin(self, operation: str, session_id: str) -> Any:
        """An operation begins."""
        if operation not in _SPANNED:
            return None
        span = self._tracer.start_span(
            f"holdfast.{operation}", attributes={CONVERSATION: session_id}
        )
        if operation not in _NESTING:
            return span, None
        return span, context.attach(trace.set_span_in_context(span))

    def end(self, begun: Any, done: Done) -> None:
        """An operation has ended."""
        super().end(begun, done)
        if begun is not None:
            span, token = begun
            if token is not None:
                context.detach(token)
            if not done.idle:  # a span that never ends is never told
                _end(span, done)

    def tell(self, session_id: str, item: Event | Notice) -> None:
        """Something happened to a session."""
        super().tell(session_id, item)
        if isinstance(item, Event):
            self._spans.take(session_id, item)
        else:
            trace.get_current_span().add_event(f"holdfast.{item.kind}", {CONVERSATION: session_id})

    def close(self) -> None:
        """End the spans that are open."""
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

    def _count_active(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(sum(observers.active for observers in self._watched))]


class _Instruments:
    """The sink whose figures go to a meter."""

    def __init__(self, meter: Meter) -> None:
        self._counters = dict(_counters(meter))
        self._histograms = {
            name: meter.create_histogram(
                metric.otel,
                metric.unit,
                metric.help,
                explicit_bucket_boundaries_advisory=list(metric.buckets),
            )
            for name, metric in METRICS.items()
            if metric.kind == "histogram"
        }

    def add(self, name: str, amount: float = 1, *labels: str) -> None:
        """Count something."""
        self._counters[name].add(amount, dict(zip(METRICS[name].labels, labels, strict=True)))

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Put one value into a distribution."""
        attributes = dict(zip(METRICS[name].labels, labels, strict=True))
        self._histograms[name].record(value, attributes)


def _counters(meter: Meter) -> Iterator[tuple[str, metrics.Counter]]:
    for name, metric in METRICS.items():
        if metric.kind == "counter":
            yield name, meter.create_counter(metric.otel, metric.unit, metric.help)


def _clients(meter: Meter) -> Clients:
    return Clients(
        meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of the model."),
        meter.create_histogram("gen_ai.client.operation.duration", "s", "Time of the model."),
    )


def _end(span: Span, done: Done) -> None:
    if done.error is not None:
        span.set_attribute("error.type", code_of(done.error))
        span.set_status(Status(StatusCode.ERROR))
    if done.restored:
        span.set_attribute("holdfast.restored", True)
    span.end()
