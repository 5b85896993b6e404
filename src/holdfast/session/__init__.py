"""The live session: writing, folding, following, snapshots, and what happens at opening."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy
from holdfast.session._agent_documents import check_unsealed
from holdfast.session._clock import Clock, new_session_id, now_ms
from holdfast.session._conversation import log_recovery
from holdfast.session._keeper import Timers
from holdfast.session._lifetime import WhenForgotten, in_event_loop, in_thread, uncancelled
from holdfast.session._loader import Loaded, Snapshot, Snapshots, load, load_state_at, unreadable_from
from holdfast.session._opening import (
    Durability,
    Opening,
    Options,
    Patience,
    Repair,
    Resume,
    check_title,
    check_wait,
    is_alive,
)
from holdfast.session._parts import MemoryPriority, MemoryScope, NotStoredWarning
from holdfast.session._subscribers import Hub, Subscriber
from holdfast.session._turn import ToolRun, Turn
from holdfast.session._writer import Draft, Writer
from holdfast.session.reader import blob_loader, fits, read_blocks, read_range, read_step, resolve_blobs
from holdfast.session.session import Session

if TYPE_CHECKING:
    from holdfast.session._agent_documents import (
        AGENT,
        PERMISSIONS,
        PLUGINS,
        AgentDocument,
        ApprovalsDocument,
        PluginDocument,
        damaged_documents,
        point_agent,
        read_agent,
        read_or_begin,
        set_aside,
        swap,
    )
    from holdfast.session._branches import Branches, EventEnd, check_new_id, detach_children
    from holdfast.session._follower import Follower
    from holdfast.session._observers import Finished, Observer, Observers
    from holdfast.session._repair import repair_log
    from holdfast.session._seal import decrypt_key, encrypt_key, rekey_key, rewriter_for
    from holdfast.session._sealed_store import SealedDocuments, SealingStore, opener_of, sealing, within
    from holdfast.session._verification import Report, TamperedPlace, verify_log
    from holdfast.session.steps import RERUN, Rerun, Retry, StepCall, Steps, step

# Loaded when first asked for: branching, following and mending are rare.
__getattr__ = lazy(
    __name__,
    {
        "_agent_documents": (
            "AGENT AgentDocument ApprovalsDocument PERMISSIONS PLUGINS PluginDocument "
            "damaged_documents point_agent read_agent read_or_begin set_aside swap"
        ),
        "_branches": "Branches EventEnd check_new_id detach_children",
        "_follower": "Follower",
        "_observers": "Finished Observer Observers",
        "_repair": "repair_log",
        "_seal": "decrypt_key encrypt_key rekey_key rewriter_for",
        "_sealed_store": "SealedDocuments SealingStore opener_of sealing within",
        "steps": "RERUN Rerun Retry StepCall Steps step",
        "_verification": "TamperedPlace Report verify_log",
    },
)

__all__ = [
    "AGENT",
    "PERMISSIONS",
    "PLUGINS",
    "RERUN",
    "AgentDocument",
    "ApprovalsDocument",
    "Branches",
    "Clock",
    "Draft",
    "Durability",
    "EventEnd",
    "Finished",
    "Follower",
    "Hub",
    "Loaded",
    "MemoryPriority",
    "MemoryScope",
    "NotStoredWarning",
    "Observer",
    "Observers",
    "Opening",
    "Options",
    "Patience",
    "PluginDocument",
    "Repair",
    "Report",
    "Rerun",
    "Resume",
    "Retry",
    "SealedDocuments",
    "SealingStore",
    "Session",
    "Snapshot",
    "Snapshots",
    "StepCall",
    "Steps",
    "Subscriber",
    "TamperedPlace",
    "Timers",
    "ToolRun",
    "Turn",
    "WhenForgotten",
    "Writer",
    "blob_loader",
    "check_new_id",
    "check_title",
    "check_unsealed",
    "check_wait",
    "damaged_documents",
    "decrypt_key",
    "detach_children",
    "encrypt_key",
    "fits",
    "in_event_loop",
    "in_thread",
    "is_alive",
    "load",
    "load_state_at",
    "log_recovery",
    "new_session_id",
    "now_ms",
    "opener_of",
    "point_agent",
    "read_agent",
    "read_blocks",
    "read_or_begin",
    "read_range",
    "read_step",
    "rekey_key",
    "repair_log",
    "resolve_blobs",
    "rewriter_for",
    "sealing",
    "set_aside",
    "step",
    "swap",
    "uncancelled",
    "unreadable_from",
    "verify_log",
    "within",
]
