"""Seeing what the system does: metrics for Prometheus, structured logs, a dashboard.

Nothing of it is loaded unless it is used. OpenTelemetry is in ``holdfast.integrations.otel``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy

if TYPE_CHECKING:
    from holdfast.observe._events import LEVELS, JsonFormatter, LogObserver, TextFormatter, log_to
    from holdfast.observe._figures import (
        CONTENT_TYPE,
        METRICS,
        Figures,
        Metric,
        Sink,
        add_health,
        dashboard,
        store_figures,
    )
    from holdfast.observe._otel import OtelObserver, observe, trace_session
    from holdfast.observe._watcher import Metrics, Watching, code_of

# Loaded when first asked for: figures need no logs, and few programs have OpenTelemetry installed.
__getattr__ = lazy(
    __name__,
    {
        "_events": "LEVELS JsonFormatter LogObserver TextFormatter log_to",
        "_figures": "CONTENT_TYPE METRICS Figures Metric Sink add_health dashboard store_figures",
        "_otel": "OtelObserver observe trace_session",
        "_watcher": "Metrics Watching code_of",
    },
)

__all__ = ["LEVELS", "JsonFormatter", "LogObserver", "TextFormatter", "log_to"]
__all__ += ["CONTENT_TYPE", "METRICS", "Figures", "Metric", "Metrics", "Sink", "Watching", "add_health", "code_of"]
__all__ += ["OtelObserver", "dashboard", "observe", "store_figures", "trace_session"]
