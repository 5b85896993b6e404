"""Words to a working agent, as the state knows them."""

from __future__ import annotations

from holdfast.model import Event
from holdfast.replay import fold


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
