"""Seeing what the system does: metrics for Prometheus, structured logs, a dashboard.

Nothing of it is loaded unless it is used. OpenTelemetry is in ``holdfast.integrations.otel``.
"""

from __future__ import annotations

from holdfast.observe._dashboard import dashboard
from holdfast.observe._figures import CONTENT_TYPE, Figures, Sink
from holdfast.observe._logging import LEVELS, JsonFormatter, LogObserver, TextFormatter, log_to
from holdfast.observe._names import METRICS, Metric
from holdfast.observe._store_figures import add_health, store_figures
from holdfast.observe._watching import Metrics, Watching, code_of

__all__ = [
    "CONTENT_TYPE",
    "LEVELS",
    "METRICS",
    "Figures",
    "JsonFormatter",
    "LogObserver",
    "Metric",
    "Metrics",
    "Sink",
    "TextFormatter",
    "Watching",
    "add_health",
    "code_of",
    "dashboard",
    "log_to",
    "store_figures",
]
