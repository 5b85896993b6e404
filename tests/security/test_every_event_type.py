"""Redaction looks at every event that a caller can write, whatever its type."""

from __future__ import annotations

import pytest

from holdfast.errors import SecretFound
from holdfast.library import Holdfast
from holdfast.model import BODIES

SECRET = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
OURS = {"session_start", "opened", "closed"}
TYPES = sorted({*BODIES, "my_own_type"} - OURS)


@pytest.mark.parametrize("type", TYPES)
def test_a_secret_in_any_event_is_replaced(store_root, type):
    """Nothing of a secret is in the store, in whichever member of whichever event it came."""
    with Holdfast(store_root, timers=False, redaction="mark") as hf, hf.session("a") as s:
        s.append(type, {"reason": SECRET, "note": {"deep": [f"see {SECRET}"]}, "id": SECRET})
    held = [path for path in store_root.rglob("*") if path.is_file()]
    assert [path for path in held if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("type", TYPES)
def test_a_secret_in_any_event_is_refused(store_root, type):
    """With the mode "block" none is recorded."""
    with Holdfast(store_root, timers=False, redaction="block") as hf, hf.session("a") as s:
        with pytest.raises(SecretFound):
            s.append(type, {"note": SECRET})
        assert s.seq == -1


def test_what_ties_sessions_together_stays(store_root):
    """A token under which an agent waits, and the names of logs, are ids and no secrets."""
    with Holdfast(store_root, timers=False, redaction="mark") as hf, hf.session("a") as s:
        token = "0f4c7a1b9d2e8f60a1b2c3d4e5f60718293a4b5c6d7e8f90"
        event = s.append("suspended", {"token": token, "reason": "waiting"})
    assert event.data["token"] == token
