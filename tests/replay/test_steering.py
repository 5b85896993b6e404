"""Words to a working agent, as the state knows them."""

from __future__ import annotations

from holdfast.model import Event
from holdfast.replay import fold, read_transcript


def unheard(*events):
    return fold(Event.make(type, data, seq=seq) for seq, (type, data) in enumerate(events)).unheard


def test_a_word_is_unheard_until_a_message_names_it():
    """Only the message that carries a word settles it, not another one."""
    said = [("steer", {"content": "a"}), ("steer", {"content": "b"}), ("user", {"content": "c"})]
    assert unheard(*said) == [0, 1]
    assert unheard(*said, ("user", {"content": "a", "steer": 0})) == [1]
    assert unheard(*said, ("user", {"content": "a", "steer": 0}), ("user", {"content": "a", "steer": 0})) == [1]


def test_a_word_that_was_taken_back_is_not_told():
    """A retracted word does not wait for anybody."""
    assert unheard(("steer", {"content": "a"}), ("steer", {"content": "b"}), ("retracted", {"seqs": [0]})) == [1]


def test_a_transcript_shows_words_that_were_not_heard_yet():
    """Whoever says something to a working agent sees it at once, and once it is heard as their message alone."""
    said = [("user", {"role": "user", "content": "Dig"}), ("steer", {"content": "deep enough"})]
    events = [Event.make(kind, data, seq=n, timestamp=1, run="r") for n, (kind, data) in enumerate(said)]
    [_, note] = read_transcript(events)
    assert (note.kind, note.name, note.text) == ("note", "said meanwhile, not heard yet", "deep enough")
    heard = Event.make("user", {"role": "user", "content": "deep enough", "steer": 1}, seq=2, timestamp=2, run="r")
    assert [entry.kind for entry in read_transcript([*events, heard])] == ["user", "user"]
