"""The live session: writing, folding, following, snapshots, and opening."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy
from holdfast.session._clock import Clock, new_session_id, now_ms

if TYPE_CHECKING:
    from holdfast.session._agent_documents import (
        AGENT,
        PERMISSIONS,
        PLUGINS,
        AgentDocument,
        ApprovalsDocument,
        PluginDocument,
        check_unsealed,
        damaged_documents,
        point_agent,
        read_agent,
        read_or_begin,
        set_aside,
        swap,
    )
    from holdfast.session._branches import Branches, EventEnd, check_new_id, detach_children, marked_events
    from holdfast.session._conversation import log_recovery
    from holdfast.session._follower import Follower
    from holdfast.session._keeper import Timers
    from holdfast.session._lifetime import WhenForgotten, in_event_loop, in_thread, uncancelled
    from holdfast.session._loader import Loaded, Snapshot, Snapshots, is_alive, load, load_state_at, unreadable_from
    from holdfast.session._observers import Finished, Observer, Observers
    from holdfast.session._opening import (
        Durability,
        Opening,
        Options,
        Patience,
        Repair,
        Resume,
        check_title,
        check_wait,
    )
    from holdfast.session._parts import MemoryPriority, MemoryScope, NotStoredWarning
    from holdfast.session._repair import gather, repair_log
    from holdfast.session._seal import decrypt_key, encrypt_key, rekey_key, rewriter_for
    from holdfast.session._sealed_store import SealedDocuments, SealingStore, opener_of, sealing, within
    from holdfast.session._subscribers import Hub, Subscriber
    from holdfast.session._turn import RecordedCall, ToolRun, Turn
    from holdfast.session._verification import Report, TamperedPlace, verify_log
    from holdfast.session._work import RERUN, Rerun, Retry, encode_arguments
    from holdfast.session._writer import Draft, Writer
    from holdfast.session.asks import (
        ANSWERS,
        Answer,
        Edited,
        Result,
        Waiting,
        answered_already,
        answered_by,
        ask_id,
        check_settled,
        documents_of,
        drop_answer,
        expired,
        give_answers,
        is_due,
        is_late,
        kept_answers,
        overdue,
        put_answer,
        read_answer,
        take_answers,
        waiting_of,
    )
    from holdfast.session.reader import (
        blob_loader,
        fits,
        read_blocks,
        read_range,
        read_step,
        resolve_blobs,
        whole_event,
    )
    from holdfast.session.session import Session
    from holdfast.session.steps import StepCall, Steps, idempotency_key, step

# Loaded when first asked for: looking at a store opens no session.
__getattr__ = lazy(
    __name__,
    {
        "_conversation": "log_recovery",
        "_keeper": "Timers",
        "_lifetime": "WhenForgotten in_event_loop in_thread uncancelled",
        "_loader": "Loaded Snapshot Snapshots is_alive load load_state_at unreadable_from",
        "_opening": "Durability Opening Options Patience Repair Resume check_title check_wait",
        "_parts": "MemoryPriority MemoryScope NotStoredWarning",
        "_subscribers": "Hub Subscriber",
        "_turn": "RecordedCall ToolRun Turn",
        "_writer": "Draft Writer",
        "reader": "blob_loader fits read_blocks read_range read_step resolve_blobs whole_event",
        "session": "Session",
        "_agent_documents": (
            "check_unsealed AGENT AgentDocument ApprovalsDocument PERMISSIONS PLUGINS PluginDocument "
            "damaged_documents point_agent read_agent read_or_begin set_aside swap"
        ),
        "_branches": "Branches EventEnd check_new_id detach_children marked_events",
        "_follower": "Follower",
        "_observers": "Finished Observer Observers",
        "_repair": "gather repair_log",
        "_seal": "decrypt_key encrypt_key rekey_key rewriter_for",
        "_sealed_store": "SealedDocuments SealingStore opener_of sealing within",
        "asks": (
            "ANSWERS Answer Edited Result Waiting answered_already answered_by ask_id check_settled documents_of "
            "drop_answer expired give_answers is_due is_late kept_answers overdue put_answer read_answer take_answers "
            "waiting_of"
        ),
        "_work": "RERUN Rerun Retry encode_arguments",
        "steps": "StepCall Steps idempotency_key step",
        "_verification": "TamperedPlace Report verify_log",
    },
)

# The live session, its values, and its subscribers.
__all__ = ["MemoryPriority", "MemoryScope", "NotStoredWarning", "Session", "ToolRun", "Turn", "log_recovery"]
__all__ += ["Clock", "Draft", "RecordedCall", "Writer", "new_session_id", "now_ms"]
__all__ += ["Finished", "Hub", "Observer", "Observers", "Subscriber", "Timers"]
__all__ += ["WhenForgotten", "in_event_loop", "in_thread", "uncancelled"]
__all__ += ["RERUN", "Rerun", "Retry", "StepCall", "Steps", "encode_arguments", "idempotency_key", "step"]
# Questions that a session waits for, and their answers.
__all__ += ["ANSWERS", "Answer", "Edited", "Result", "Waiting", "answered_already", "answered_by", "ask_id"]
__all__ += [
    "check_settled",
    "documents_of",
    "drop_answer",
    "expired",
    "give_answers",
    "is_due",
    "is_late",
    "kept_answers",
    "overdue",
    "put_answer",
    "read_answer",
]
__all__ += ["take_answers", "waiting_of"]
# Opening and loading.
__all__ += ["Durability", "Opening", "Options", "Patience", "Repair", "Resume"]
__all__ += ["check_title", "check_wait", "is_alive"]
__all__ += ["Loaded", "Snapshot", "Snapshots", "load", "load_state_at", "unreadable_from"]
# Logs without a session: reading, branching, verifying, repairing, sealing.
__all__ += ["Follower", "blob_loader", "fits", "read_blocks", "read_range", "read_step", "resolve_blobs", "whole_event"]
__all__ += ["Branches", "EventEnd", "check_new_id", "detach_children", "marked_events"]
__all__ += ["Report", "TamperedPlace", "gather", "repair_log", "verify_log"]
__all__ += ["SealedDocuments", "SealingStore", "decrypt_key", "encrypt_key", "opener_of", "rekey_key", "rewriter_for"]
__all__ += ["sealing", "within"]
# The documents of agents.
__all__ += ["AGENT", "PERMISSIONS", "PLUGINS", "AgentDocument", "ApprovalsDocument", "PluginDocument", "check_unsealed"]
__all__ += ["damaged_documents", "point_agent", "read_agent", "read_or_begin", "set_aside", "swap"]
