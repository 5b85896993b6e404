"""Test support for users: the store contract, disks and stores that fail or record, Hypothesis strategies.

The strategies need hypothesis, so they are loaded when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.testing._crash_states import CrashState
from holdfast.testing._faults import DISK_CALLS, DeferredStore, FaultyDisk
from holdfast.testing._sim_disk import SimDisk
from holdfast.testing.contract.store import StoreContract

if TYPE_CHECKING:
    from holdfast.testing.strategies import damaged_bytes, encode_log, event_data, events, json_values, logs

__all__ = ["DISK_CALLS", "CrashState", "DeferredStore", "FaultyDisk", "SimDisk", "StoreContract"]
__all__ += ["damaged_bytes", "encode_log", "event_data", "events", "json_values", "logs"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.testing import strategies

    return getattr(strategies, name)
