"""Seeing what the system does: metrics for Prometheus, structured logs, a dashboard.

Nothing of it is loaded unless it is used. OpenTelemetry is in ``holdfast.integrations.otel``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy
from holdfast.observe._events import LEVELS, JsonFormatter, LogObserver, TextFormatter, log_to
from holdfast.observe._figures import (
    CONTENT_TYPE,
    METRICS,
    Figures,
    Metric,
    Metrics,
    Sink,
    Watching,
    add_health,
    code_of,
    dashboard,
    store_figures,
)

if TYPE_CHECKING:
    from holdfast.observe._otel import OtelObserver, observe, trace_session

# Needs OpenTelemetry, which most programs have not installed.
__getattr__ = lazy(__name__, {"_otel": "OtelObserver observe trace_session"})

__all__ = ["LEVELS", "JsonFormatter", "LogObserver", "TextFormatter", "log_to"]
__all__ += ["CONTENT_TYPE", "METRICS", "Figures", "Metric", "Metrics", "Sink", "Watching", "add_health", "code_of"]
__all__ += ["OtelObserver", "dashboard", "observe", "store_figures", "trace_session"]
