"""Which requirements a run has shown: by test, what it carries and how it ended, or why not.

With ``REQUIREMENTS_RESULTS=PATH`` a line of JSON for each test with a ``req`` mark is written
there; ``tools/requirements.py`` makes a page of it, or finds what is missing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_PROPERTY = "requirements"
_shown: dict[str, dict[str, object]] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each report carry its test's requirements, also from the workers."""
    for item in items:
        ids = sorted({one for mark in item.iter_markers("req") for one in mark.args})
        if ids:
            item.user_properties.append((_PROPERTY, ids))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test has passed when nothing of it failed or was skipped."""
    ids = dict(report.user_properties).get(_PROPERTY)
    if ids is None:
        return
    noted = _shown.setdefault(report.nodeid, {"ids": ids, "outcome": "passed"})
    if noted["outcome"] == "passed":
        noted["outcome"] = report.outcome
        if report.skipped:
            noted["reason"] = _reason(report)


def _reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, in the words that pytest prints."""
    told = report.longrepr
    words = told[2] if isinstance(told, tuple) else str(told)
    return words.removeprefix("Skipped: ")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was shown, once for all workers."""
    place = os.environ.get("REQUIREMENTS_RESULTS")
    if place and not hasattr(session.config, "workerinput"):
        lines = [json.dumps({"test": test, **noted}) for test, noted in sorted(_shown.items())]
        Path(place).write_text("\n".join(lines) + "\n", "utf-8")
