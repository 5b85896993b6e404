"""What the words of a message are, and what is said where words are lost."""

from __future__ import annotations

from holdfast import Event
from holdfast.replay import read_transcript, words_said


def test_the_words_of_a_message_are_told_by_kind():
    """Thoughts of any form and words of any block; what is neither is left out."""
    content = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
        {"type": "tool_use", "id": "c", "name": "Look", "input": {}},
        {"type": "text", "text": "It is"},
        "far",
    ]
    assert words_said(content) == {"thinking": "hm\nso", "assistant": "It is\nfar"}
    assert words_said("far") == {"assistant": "far"}
    assert words_said(None) == {}


def test_a_damaged_end_is_told_where_the_events_reach_it():
    """The note comes last, and not with a part that ends before."""
    events = [Event.make("user", {"content": "w"}, seq=seq, timestamp=seq) for seq in range(3)]
    *_, last = read_transcript(events, lost_from=3)
    assert (last.seq, last.kind) == (3, "note")
    assert last.name == "events from 3 on cannot be read (see holdfast verify)"
    assert all(one.kind == "user" for one in read_transcript(events[:2], lost_from=3))
