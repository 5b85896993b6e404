"""Streams under redaction: how far they are on record, and where their events are."""

from __future__ import annotations

import pytest

import holdfast

TOKEN = "gh" + "p_" + "aB3dE5gH" * 4 + "abcd"
MARK = {"redaction": {"mode": "mark"}}

pytestmark = pytest.mark.stores(config=MARK, timers=True)


def words(session):
    """What the log has of the stream."""
    return "".join(event.data["content"] for event in session.events() if event.type == "delta")


def test_what_is_held_back_is_told_by_kind_and_run(hf):
    """Plain words are on record at once; a word that a secret may begin with is counted."""
    with hf.session("a") as session:
        session.delta("the answer is ")
        assert session.held_back() == {}
        session.delta("v1.2")
        session.delta("hm x9y", kind="thinking")
        session.delta("n0w", run="r")
        assert session.held_back() == {"text": 4, "thinking": 3}
        assert session.held_back("r") == {"text": 3}
        session.delta(" indeed")
        assert session.held_back() == {"thinking": 3}


def test_held_words_can_be_recorded_without_more(hf):
    """Only those of the run; a secret that goes on after that is still replaced in its rest."""
    with hf.session("a") as session:
        session.delta("x9", run="r")
        session.delta(f"it is {TOKEN[:10]}")
        session.record_held()
        assert session.held_back() == {}
        assert session.held_back("r") == {"text": 2}
        assert words(session) == f"it is {TOKEN[:10]}"
        session.delta(f"{TOKEN[10:]} ok")
        assert TOKEN[10:] not in words(session)
        assert words(session).endswith(" ok")
        session.record_held()
        last = session.seq
        session.record_held()
        assert session.seq == last


def test_without_redaction_nothing_is_held_back(tmp_path):
    """Both are there and do nothing."""
    with holdfast.open(tmp_path / "store") as hf, hf.session("a") as session:
        session.delta("x9")
        last = session.seq
        session.record_held()
        assert session.held_back() == {}
        assert session.seq == last


def test_who_follows_a_stream_gets_its_last_word(hf):
    """Also if a whole message takes the place of the pieces."""
    seen = []
    stop = hf.subscribe(lambda name, what: seen.append((name, what)))
    with hf.session("a") as session:
        first = session.delta("this is v1.2").seq
        session.assistant("this is v1.2", covers_from=first)
        said = [event for _, event in seen if getattr(event, "type", "") == "delta"]
        assert "".join(event.data["content"] for event in said) == "this is v1.2"
        assert session.messages()[-1]["content"] == "this is v1.2"
    stop()


def test_a_message_covers_its_own_pieces_when_others_were_added_before_them(hf):
    """What was cut off stays; what the whole message replaces is counted where it is."""
    with hf.session("a") as session:
        session.user("go")
        session.delta("cut off at v1.2")
        seq = session.seq + 1
        session.extend(
            [
                ("interrupted", {"reason": "died"}),
                ("delta", {"content": "again "}),
                ("assistant", {"role": "assistant", "content": "again", "covers_from": seq + 1}),
            ]
        )
        events = list(session.events())
    whole = next(event for event in events if event.type == "assistant")
    covered = [event for event in events if event.seq >= whole.data["covers_from"]]
    assert [event.data["content"] for event in covered if event.type == "delta"] == ["again "]
    kept = [event for event in events if event.seq < whole.data["covers_from"]]
    assert "".join(e.data["content"] for e in kept if e.type == "delta") == "cut off at v1.2"


def test_a_last_word_belongs_to_its_message(hf):
    """It is recorded with what the pieces before it say of themselves."""
    about = {"messageId": "m1", "agent": "helper"}
    with hf.session("a") as session:
        session.delta("so v1.2", **about, raw={"text": "so v1.2"})
        session.delta("hm x9", kind="thinking")
        session.append("turn_end", {"reason": "completed"})
        last = [event.data for event in session.events() if event.type == "delta"][-2:]
    assert last == [{"content": "v1.2", **about}, {"content": "x9", "kind": "thinking"}]
