"""Importing a session of a coding agent again after it has gone on there."""

from __future__ import annotations

import json

import pytest

from holdfast import Holdfast
from holdfast.replay import runs

SESSION = "0f7c1a52-3f0e-4a55-9b6a-6f1f6f2a9c01"


def record(uuid, parent, role, words):
    content = words if role == "user" else [{"type": "text", "text": words}]
    return {
        "type": role,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": SESSION,
        "timestamp": f"2025-11-02T10:00:{int(uuid[1:]):02d}.000Z",
        "message": {"role": role, "id": f"msg-{uuid}", "content": content},
    }


@pytest.fixture
def bring(tmp_path):
    """Writes the records and imports them; gives what is said in each run afterwards."""
    hf = Holdfast(tmp_path / "store")
    path = tmp_path / f"{SESSION}.jsonl"

    def write(records):
        path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        (id,) = hf.import_(path)
        found = runs(list(hf.events(id)))
        return {run.id: [m["content"] for m in run.conversation.messages()] for run in found}

    return write


TALK = [
    record("u1", None, "user", "One"),
    record("u2", "u1", "assistant", "1"),
    record("u3", "u2", "user", "Old way"),
    record("u4", "u3", "assistant", "old"),
]


@pytest.mark.req("C11")
def test_only_what_is_new_is_added(bring):
    """And an import without anything new adds nothing."""
    assert bring(TALK[:2]) == {None: ["One", "1"]}
    assert bring(TALK) == {None: ["One", "1", "Old way", "old"]}
    assert bring(TALK) == {None: ["One", "1", "Old way", "old"]}


def test_what_was_rewound_after_an_import_leaves_the_conversation(bring):
    """It is then said in a run of its own, as if it had been rewound before."""
    assert bring(TALK) == {None: ["One", "1", "Old way", "old"]}
    rewound = [*TALK, record("u5", "u2", "user", "New way"), record("u6", "u5", "assistant", "new")]
    expected = {None: ["One", "1", "New way", "new"], "branch-u3": ["Old way", "old"]}
    assert bring(rewound) == expected
    assert bring(rewound) == expected
