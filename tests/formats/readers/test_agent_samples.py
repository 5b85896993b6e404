"""Files that real coding agents wrote, if a folder of them is named; none are in the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.formats import reader_for

FOLDER = os.environ.get("HOLDFAST_SAMPLES")  # read before the tests' clean environment hides it
# Counted by hand: user turns, assistant turns, thoughts, calls, results of all sessions in a file.
EXPECTED = {
    ("aider", ".aider.chat.history.md"): (1, 1, 0, 0, 0),
    ("claude-code", "c337d669-01ea-4875-a35d-b66bfa2a361a.jsonl"): (2, 3, 0, 1, 1),
    ("cline", "1794734580843_9tgrl.messages.json"): (1, 2, 0, 1, 1),
    ("codex", "rollout-2026-11-15T09-13-11-01a1de7b-65bf-7ca3-b2cc-f395e57a3b51.jsonl"): (1, 2, 0, 1, 1),
    ("copilot-cli", "9966cf60-2242-4164-a62e-aa21926275fc-events.jsonl"): (2, 3, 0, 1, 1),
    ("gemini-cli", "session-2026-11-15T09-19-8962f409.jsonl"): (5, 7, 0, 2, 2),
    ("gemini-cli", "session-2026-11-15T09-20-af46dd90.jsonl"): (0, 0, 0, 0, 0),
    ("goose", "sessions.db"): (4, 6, 0, 2, 2),
    ("opencode", "export.json"): (3, 5, 0, 2, 2),
    ("opencode", "opencode.db"): (12, 15, 0, 5, 4),
    ("pi", "2026-11-15T09-23-04-329Z_01a1de84-7209-774a-a2e9-64125601c8f8.jsonl"): (2, 3, 0, 1, 1),
    ("qwen", "c459e651-e213-43bb-977c-6ad37e0a644b.jsonl"): (5, 5, 0, 1, 1),
}


def _find(tool, name):
    found = sorted(Path(FOLDER).glob(f"{tool}*/**/{name}")) if FOLDER else []
    return found[0] if found else None


FILES = {key: path for key in EXPECTED if (path := _find(*key)) is not None}


@pytest.mark.skipif(not FILES, reason="HOLDFAST_SAMPLES names no folder of agents' files")
@pytest.mark.parametrize("key", FILES, ids=lambda key: f"{key[0]}-{key[1][:20]}")
@pytest.mark.req("C11")
def test_a_real_file_arrives_whole(kit, key):
    """The right tool claims it; every turn, call, result and time arrives; it recovers valid."""
    tool, name = key
    path = FILES[key]
    beside = {p.name: p.read_bytes() for p in path.parent.iterdir() if p.is_file()}
    source = kit.source(name, path.read_bytes(), beside, folder=path.parent.name)
    reader = reader_for(source)
    assert reader.tool == tool
    found = kit.read(reader, source)
    assert tuple(map(sum, zip(*(told.counts() for told in found), strict=True))) == EXPECTED[key]
    for told in found:
        assert told.foreign.problems == []
        assert all(draft.timestamp for draft in told.drafts)
