"""The SDK's own tests of session stores, on ours; they run on asyncio and on trio."""

from __future__ import annotations

_ON_HOLDFAST = """
    import time

    import claude_agent_sdk
    from claude_agent_sdk._internal import session_store

    import holdfast
    from holdfast.integrations.claude_sdk import HoldfastSessionStore


    class OnHoldfast(HoldfastSessionStore):
        def __init__(self):
            super().__init__(holdfast.open("memory:"))

        async def append(self, key, entries):
            await super().append(key, entries)
            time.sleep(0.001)  # they count on another time for each

        def get_entries(self, key):
            return [unit.fresh for unit in self._of(key).of(key.get("subpath"))]


    claude_agent_sdk.InMemorySessionStore = session_store.InMemorySessionStore = OnHoldfast
"""
_FILES = (
    "session_helpers_store",
    "session_import",
    "session_resume",
    "session_store_anyio",
    "session_store_conformance",
    "session_summary",
    "transcript_mirror",
)
# These ask for members of the store in memory that no protocol has, or count turns of the event
# loop until a store has answered, which ours does from a thread.
_NOT_OURS = (
    "clear_helper",
    "continue_picks_most_recent",
    "continue_skips_sidechain_sessions",
    "continue_tie_break",
    "removes_session",
    "size_helper",
    "bounded",
    "cancelled_after_mkdtemp",
    "eager_flush_mode_appends_per_frame_before_result",
)


def test_every_test_of_session_stores_passes_on_both_event_loops(own_tests):
    """All but those about the inside of the SDK's own store, with ours in its place."""
    files = [f"tests/test_{name}.py" for name in _FILES]
    chosen = " and ".join(f"not {name}" for name in _NOT_OURS)
    plain = ("-p", "anyio", "-p", "no:asyncio", "--import-mode=importlib", "-k", chosen)
    ends = own_tests("claude-agent-sdk", _ON_HOLDFAST, *plain, *files)
    assert ends["passed"] > 340
    assert ends["deselected"] < 25
    assert "failed" not in ends
