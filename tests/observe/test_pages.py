"""The pages on observability are complete: every notice, metric and span is on them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast.observe
from holdfast.observe import METRICS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "observability.md").read_text(encoding="utf-8")


MADE = re.compile(r'(?:\bNotice|\b_?notify)\(\s*"(\w+)"')
RESEALED = re.compile(r'\._each\([^"\n]*"(\w+)"')


def notices_in_code():
    """Every kind of notice that some code makes, by the calls that make one."""
    found = set()
    for path in (ROOT / "src" / "holdfast").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found |= set(MADE.findall(text))
        if path.name == "_keys.py":
            found |= set(RESEALED.findall(text))
    return found


def test_every_notice_is_on_the_page():
    """Each kind that code tells of has its row, and no row tells of another."""
    rows = PAGE.partition("## Notices")[2].partition("## Metrics")[0].splitlines()
    cells = [line.split("|")[1] for line in rows if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == notices_in_code()


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_every_metric_is_on_the_page(metric):
    """With both names, its kind, its labels and what it means."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{metric.name}`<br>")]
    _, names, kind, labels, meaning, _ = (cell.strip() for cell in row.split("|"))
    assert re.findall(r"`([^`]+)`", names) == [metric.name, metric.otel]
    assert kind.partition(",")[0] == metric.kind
    assert tuple(re.findall(r"`(\w+)`", labels)) == metric.labels
    assert meaning == metric.help


def test_the_alarms_on_the_page_are_of_metrics_that_are_there():
    """Every metric in an alarm, or anywhere on the page that tells how, is one of ours."""
    page = (ROOT / "docs" / "howto" / "monitor.md").read_text(encoding="utf-8")
    named = {re.sub(r"_bucket$", "", name) for name in re.findall(r"\bholdfast_\w+", page)}
    assert len(named) > 5
    assert named <= set(METRICS)


def test_names_are_told_apart():
    """No two metrics share a name, in either system."""
    assert len({metric.otel for metric in METRICS.values()}) == len(METRICS)


def test_what_the_room_gives_is_there():
    """Every name of ``__all__`` can be had, and those for users are on the page."""
    assert all(hasattr(holdfast.observe, name) for name in holdfast.observe.__all__)
    for name in ("Metrics", "store_figures", "LogObserver", "JsonFormatter", "METRICS"):
        assert f"holdfast.observe.{name}" in PAGE
