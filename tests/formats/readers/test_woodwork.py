"""woodwork-engine: dumped session dicts."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.req("C20")


def session(id="cli_session", **changes):
    """A dumped session."""
    return {
        "id": id,
        "conversation_history": [
            {"role": "user", "content": "Count to three", "timestamp": 1759000000.25},
            {"role": "assistant", "content": "1, 2, 3", "timestamp": 1759000001.5},
            {"role": "user", "content": "Go on", "timestamp": 1759000002.0},
        ],
        "workflow_variables": {"total": 3, "names": ["a", "b"], "odd": {"$type": "date"}},
        "current_prompt": "Count to three\nThought: easy",
        "created_at": 1758999999.125,
        "last_activity": 1759000002.75,
        **changes,
    }


def bring(hf, tmp_path, value, name="dump.json"):
    """Write a dump and import it."""
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return hf.import_(path)


@pytest.mark.req("S1-9")
def test_the_six_fields_arrive(hf, tmp_path):
    """Turns with their times, variables with their types, prompt, creation and last activity."""
    [id] = bring(hf, tmp_path, session())
    row, state = hf.info(id), hf.state(id)
    assert (row.created_at, row.updated_at, row.message_count) == (1758999999125, 1759000002750, 3)
    turns = [(e.type, e.data["content"], e.timestamp) for e in hf.events(id, types=["user", "assistant"])]
    assert turns == [
        ("user", "Count to three", 1759000000250),
        ("assistant", "1, 2, 3", 1759000001500),
        ("user", "Go on", 1759000002000),
    ]
    assert state.variables == {"total": 3, "names": ["a", "b"], "odd": {"$type": "date"}}
    assert state.metadata["woodwork"]["current_prompt"] == "Count to three\nThought: easy"
    assert state.links["woodwork"] == ["cli_session"]


@pytest.mark.parametrize("shape", ["list", "map", "named map", "lines"])
def test_several_sessions_in_one_dump(hf, tmp_path, shape):
    """A list, a map by id, a map below `sessions`, and a session on each line are all read."""
    one, two = session("one"), session("two")
    bare = {name: value for name, value in two.items() if name != "id"}
    values = {
        "list": [one, two],
        "map": {"one": one, "two": bare},
        "named map": {"sessions": {"one": one, "two": bare}},
        "lines": f"{json.dumps(one)}\n{json.dumps(two)}\n",
    }
    ids = bring(hf, tmp_path, values[shape], "dump.jsonl" if shape == "lines" else "dump.json")
    assert [hf.state(id).links["woodwork"] for id in ids] == [["one"], ["two"]]


def test_turns_that_are_odd_are_kept(hf, tmp_path):
    """A turn without a role, and content that is no text, are not lost."""
    history = ["lost?", {"role": "assistant", "content": {"answer": 4}, "confidence": 1}]
    [id] = bring(hf, tmp_path, session(conversation_history=history))
    [frame] = hf.events(id, types=["frame"])
    [answer] = hf.events(id, types=["assistant"])
    assert frame.data["raw"] == "lost?"
    assert (answer.data["content"], answer.data["metadata"]) == ('{"answer":4}', {"confidence": 1})


def test_an_empty_session(hf, tmp_path):
    """A session in which nothing was said yet is one all the same."""
    [id] = bring(hf, tmp_path, session(conversation_history=[], workflow_variables={}))
    assert hf.info(id).message_count == 0
    assert hf.recover(id).messages == []


def test_two_runs_at_a_terminal_stay_apart(hf, tmp_path):
    """Each of them has the id ``cli_session``; when they began tells them apart."""
    other = session(created_at=1758000000.5)
    [one] = bring(hf, tmp_path, session())
    [two] = bring(hf, tmp_path, other, "other.json")
    assert one != two
    grown = session(last_activity=1759000009.0)
    assert bring(hf, tmp_path, grown, "grown.json") == [one]
