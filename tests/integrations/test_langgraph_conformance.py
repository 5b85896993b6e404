"""The framework's own conformance suite, on every kind of store."""

from __future__ import annotations

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

import holdfast
from holdfast.integrations.langgraph import HoldfastSaver

CHECKS = 81


async def _report(url):
    @checkpointer_test(name="holdfast")
    async def saver():
        with holdfast.open(url) as hf:
            yield HoldfastSaver(hf)

    return await validate(saver)


@pytest.mark.parametrize("kind", ["files", "sqlite", "postgres"])
async def test_every_capability_passes_every_check(kind, store_root, request):
    """All eight capabilities are found, and all checks of each pass."""
    if kind == "files":
        url = str(store_root)
    elif kind == "sqlite":
        url = f"sqlite:///{store_root}/sessions.db"
    else:
        url = request.getfixturevalue("postgres_url")
    report = await _report(url)
    results = report.results.values()
    problems = [f"{one.capability}: {one.failures}" for one in results if one.tests_failed]
    assert problems == []
    assert all(one.detected for one in results)
    assert sum(one.tests_passed for one in results) == CHECKS
