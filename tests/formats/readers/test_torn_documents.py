"""JSON documents that were cut short."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.formats.readers._values import mend

MESSAGES = [{"role": "user", "content": [{"text": 'a "quoted", [odd] {text}\\\\'}]}, {"n": [1, {}]}]
WHOLE = {"id": 1, "messages": MESSAGES, "end": True}


@pytest.mark.parametrize("value", [WHOLE, MESSAGES])
@given(st.floats(0, 1))
def test_whatever_is_cut_off_the_rest_is_a_document(value, where):
    """Its messages are those of the whole one, as far as they go."""
    data = json.dumps(value).encode()
    mended = mend(data[: int(where * (len(data) - 1))])
    if mended is not None:
        found = json.loads(mended)
        messages = found.get("messages", []) if isinstance(found, dict) else found
        whole = [m for m in messages if m in MESSAGES]
        assert whole == MESSAGES[: len(whole)]
        assert len(messages) - len(whole) <= 1


@pytest.mark.parametrize("data", [b"", b"word", b"{}", b'{"a": 1}\n{"b": 2}', b"]", b"[}", b'"a'])
def test_what_was_not_cut_is_not_mended(data):
    """It is whole, several documents, or none."""
    assert mend(data) is None


def test_the_last_whole_message_is_kept():
    """Of the next one there is too little."""
    data = json.dumps(WHOLE).encode()
    cut = data[: data.index(b'{"n"') + 3]
    assert json.loads(mend(cut)) == {"id": 1, "messages": MESSAGES[:1]}
