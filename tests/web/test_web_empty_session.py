"""A session of which a crash left nothing that can be read."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("part", ["", "/timeline", "/state", "/state?since=3&at=9", "/health"])
def test_a_session_without_events_has_its_pages(hf, visitor, part):
    """They are empty, and say nothing of an error."""
    lease = hf.store.lease("sessions/torn")
    hf.store.log("sessions/torn").append(b'{"seq":0,"ty', 0, 1, lease.acquire("x", 1000))
    lease.release()
    assert visitor.get(f"/s/torn{part}").status_code == 200
