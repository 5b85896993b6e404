"""Pure folds: events to state, and events to a conversation that a provider accepts.

Nothing here touches a file, a clock or a source of randomness: same events in, same values out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy

if TYPE_CHECKING:
    from holdfast.replay._calls import Calls, blocks_of, mark_of
    from holdfast.replay._compare import Ancestor, Change, Comparison, SessionEvents, Side, ToolUse, TurnPair, compare
    from holdfast.replay._conversation import Conversation, runs
    from holdfast.replay._dialects import PROVIDERS
    from holdfast.replay._dialects._form import Provider
    from holdfast.replay._fold import Fold, fold
    from holdfast.replay._merge import Clash, MergeBlobs, MergeReport, MergeWishes, plan_merge
    from holdfast.replay._messages import (
        Sanitized,
        from_dialect,
        has_incomplete_tool_call,
        is_complete,
        last_tool_call,
        recognise,
        recover_todos,
        sanitize,
        to_dialect,
        tool_result_message,
    )
    from holdfast.replay._pieces import Incomplete, Issue, format_issues, recovery_line
    from holdfast.replay._progress import needs_interruption
    from holdfast.replay._record import tell
    from holdfast.replay._recover import LeftOut, Recovery, TokenCount, recover
    from holdfast.replay._rules import validate
    from holdfast.replay._state import (
        BYTES_PER_TOKEN,
        WHY_NOT_RUN,
        Approval,
        AskState,
        LoadBlob,
        MemoryEntry,
        Permissions,
        Stage,
        State,
        StepState,
        Tokens,
        ToolState,
        add_usage,
        describe,
        estimate_tokens,
        read_recorded,
        read_variable,
        stage_after,
    )
    from holdfast.replay._turns import TurnView, read_history
    from holdfast.replay._upcast import STEPS, Step, check_format, format_of, upcast, upcast_event
    from holdfast.replay.content import Media, as_json, as_pieces, as_text, kinds_said, todo_line, words_said
    from holdfast.replay.steps import PairedEntry, arguments, changed_lines, edit_of, paired
    from holdfast.replay.transcript import DECIDED, Entry, Streams, Transcript, grouped, read_transcript, unreadable

# Conversations are loaded when first asked for: a program that only records needs none.
__getattr__ = lazy(
    __name__,
    {
        "_fold": "Fold fold",
        "_progress": "needs_interruption",
        "_upcast": "STEPS Step check_format format_of upcast upcast_event",
        "_calls": "Calls blocks_of mark_of",
        "_compare": "Ancestor Change Comparison SessionEvents Side ToolUse TurnPair compare",
        "_conversation": "Conversation runs",
        "_dialects": "PROVIDERS",
        "_dialects._form": "Provider",
        "_merge": "Clash MergeBlobs MergeReport MergeWishes plan_merge",
        "_messages": (
            "Sanitized from_dialect has_incomplete_tool_call is_complete last_tool_call recognise "
            "recover_todos sanitize to_dialect tool_result_message"
        ),
        "_pieces": "Incomplete Issue format_issues recovery_line",
        "_record": "tell",
        "_recover": "LeftOut Recovery TokenCount recover",
        "_rules": "validate",
        "_state": (
            "BYTES_PER_TOKEN WHY_NOT_RUN Approval AskState LoadBlob MemoryEntry Permissions Stage State "
            "StepState Tokens ToolState add_usage estimate_tokens read_recorded read_variable stage_after describe"
        ),
        "_turns": "TurnView read_history",
        "content": "Media as_json as_pieces as_text kinds_said todo_line words_said",
        "steps": "PairedEntry arguments changed_lines edit_of paired",
        "transcript": "DECIDED Entry Streams Transcript grouped read_transcript unreadable",
    },
)

__all__ = ["Fold", "fold", "needs_interruption"]
__all__ += [
    "BYTES_PER_TOKEN",
    "Approval",
    "AskState",
    "LoadBlob",
    "MemoryEntry",
    "Permissions",
    "Stage",
    "State",
    "StepState",
]
__all__ += ["WHY_NOT_RUN", "Tokens", "ToolState", "add_usage", "describe", "estimate_tokens", "read_recorded"]
__all__ += ["STEPS", "Step", "check_format", "format_of", "read_variable", "stage_after", "upcast", "upcast_event"]
__all__ += ["Calls", "blocks_of", "mark_of"]
__all__ += ["Ancestor", "Change", "Comparison", "SessionEvents", "Side", "ToolUse", "TurnPair", "compare"]
__all__ += ["PROVIDERS", "Conversation", "Provider", "runs"]
__all__ += ["Clash", "MergeBlobs", "MergeReport", "MergeWishes", "plan_merge"]
__all__ += ["Sanitized", "from_dialect", "has_incomplete_tool_call", "is_complete", "last_tool_call", "recognise"]
__all__ += ["recover_todos", "sanitize", "to_dialect", "tool_result_message"]
__all__ += ["Incomplete", "Issue", "format_issues", "recovery_line", "tell"]
__all__ += ["LeftOut", "Recovery", "TokenCount", "TurnView", "read_history", "recover", "validate"]
__all__ += ["PairedEntry", "arguments", "changed_lines", "edit_of", "paired"]
__all__ += ["Media", "as_json", "as_pieces", "as_text", "kinds_said", "todo_line", "words_said"]
__all__ += ["DECIDED", "Entry", "Streams", "Transcript", "grouped", "read_transcript", "unreadable"]
