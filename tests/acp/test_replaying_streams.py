"""An editor is told streamed words as often as the transcript shows them."""

from __future__ import annotations

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.apps.acp.replay.log import read_some
from holdfast.apps.acp.replay.replay import replay, replay_some
from holdfast.model import Event
from holdfast.replay import read_transcript
from holdfast.storage import MemoryStore
from holdfast.testing.strategies import encode_log

steps = st.tuples(
    st.sampled_from(["delta", "delta", "delta", "assistant", "thinking", "turn_end", "tool_call"]),
    st.sampled_from([None, "r1"]),
    st.sampled_from([{}, {"kind": "thinking"}]),
    st.sampled_from([{}, {"agent": "default"}]),
    st.integers(1, 4),
    st.booleans(),
)


def streamed(given):
    """A log of streams in two runs; each message holds the pieces it covers, and may say more."""
    drafts, open_ = [], []
    for type, run, kind, agent, back, more in given:
        seq, words_of = len(drafts), {"assistant": "", "thinking": ""}
        data = {"content": f"<{seq}>", **kind, **agent}
        if type == "delta":
            open_.append((seq, run, "thinking" if kind else "assistant"))
        elif type in words_of:
            own = [one for one, *about in open_ if about == [run, type]]
            first = own[-back:][0] if own else seq
            for one, of, what in open_:
                if of == run and one >= first and (type in (what, "assistant")):
                    words_of[what] += f"<{one}>"
            text = words_of[type] + (f"<{seq}>" if more or not own else "")
            blocks = [{"type": "thinking", "thinking": words_of["thinking"]}]
            blocks.append({"type": "text", "text": text})
            is_plain = type == "thinking" or not words_of["thinking"]
            data = {"content": text if is_plain else blocks, "covers_from": first, **agent}
            gone = {what for what in words_of if type in (what, "assistant")}
            open_ = [one for one in open_ if one[1] != run or one[2] not in gone or (one[2] != type and one[0] < first)]
        elif type == "turn_end":
            data = {"reason": "completed"}
            open_ = [one for one in open_ if one[1] != run]
        else:
            data = {"id": f"c{seq}", "tool": "T", "params": {}}
        drafts.append((type, data, run))
    return [Event.make(type, data, seq=seq, timestamp=1, run=run) for seq, (type, data, run) in enumerate(drafts)]


def quickly(events):
    """The lines of a replay that reads the events from a log."""
    store, key = MemoryStore(), "sessions/none"
    store.log(key).append(encode_log(events), 0, len(events), 0)
    some = read_some(store.log(key), 0, len(events), store.documents(key))
    return b"".join(replay_some(some, "ours")).splitlines()


def said(lines, kind):
    """The marks of the words that lines tell, in order of their numbers."""
    updates = [json.loads(line)["params"]["update"] for line in lines]
    texts = [one["content"]["text"] for one in updates if one["sessionUpdate"] == kind]
    return marks("".join(texts))


def marks(text):
    return sorted(re.findall(r"<\d+>", text))


@given(st.lists(steps, min_size=1, max_size=14))
@settings(max_examples=200)
def test_streams_are_told_as_the_transcript_shows_them(given):
    """Each word comes as often as everywhere else, whichever run, message or cut it belongs to."""
    events = streamed(given)
    entries = list(read_transcript(events))
    kinds = {"assistant": "agent_message_chunk", "thinking": "agent_thought_chunk"}
    for lines in (quickly(events), list(replay(events, "ours"))):
        for kind, chunk in kinds.items():
            shown = "".join(entry.text for entry in entries if entry.kind == kind)
            assert said(lines, chunk) == marks(shown)
