"""The dashboard for Grafana that comes along."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["dashboard"]


def dashboard() -> str:
    """The dashboard as JSON, to be imported into Grafana; it asks for a Prometheus data source."""
    return files("holdfast.observe").joinpath("grafana-dashboard.json").read_text("utf-8")
