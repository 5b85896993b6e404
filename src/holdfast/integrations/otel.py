"""OpenTelemetry: traces and metrics of sessions, for the backend that the program has configured.

    from holdfast.integrations.otel import observe

    hf = holdfast.open()
    stop = observe(hf)

Needs ``opentelemetry-api`` only; the SDK and its exporters are the program's own choice.
"""

from __future__ import annotations

from holdfast.observe import OtelObserver, observe, trace_session

__all__ = ["OtelObserver", "observe", "trace_session"]
