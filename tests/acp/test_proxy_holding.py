"""Words that redaction holds back from the log are held back from the editor, too."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time

import pytest

from holdfast.apps.acp.client import ClientConfig, create_or_resume
from holdfast.apps.acp.recording import channel
from holdfast.errors import AgentError
from holdfast.library import Holdfast

TOKEN = "gh" + "p_" + "aB3dE5gH" * 4 + "abcd"


def say(*pieces):
    """A prompt that makes the agent say these."""
    return f"say {json.dumps(pieces)}"


def chunks(frames):
    """The words of each chunk of an answer."""
    return [
        frame["params"]["update"]["content"]["text"]
        for frame in frames
        if frame.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk"
    ]


def is_chunk(text):
    """Whether a frame is this chunk of an answer."""
    return lambda frame: chunks([frame]) == [text]


def bytes_of(root):
    """Everything in every file of a store."""
    return b"\n".join(place.read_bytes() for place in sorted(root.rglob("*")) if place.is_file())


def test_all_frames_come_in_order_whatever_is_held_back(proxy, tmp_path):
    """Words that could begin a secret, a plan between them, the last word of a turn."""
    editor = proxy()
    id = editor.new(tmp_path)
    pieces = ["see v1.2", ".3_x", {"plan": True}, "y9", " and then", " f00_b4r", "_z"]
    start = len(editor.seen)
    editor.prompt(id, say(*pieces))
    kinds = [
        frame["params"]["update"]["sessionUpdate"] if "method" in frame else "answer" for frame in editor.seen[start:]
    ]
    said = chunks(editor.seen[start:])
    assert said[:6] == [piece for piece in pieces if isinstance(piece, str)]
    assert kinds.index("plan") == 2
    assert kinds[-1] == "answer"


def test_a_request_of_the_agent_does_not_wait_for_more_words(proxy, tmp_path):
    """Else the agent would wait for the editor, and the editor for the agent."""
    editor = proxy()
    id = editor.new(tmp_path)
    number = editor.ask(
        "session/prompt", sessionId=id, prompt=[{"type": "text", "text": say("see v1.2", {"read": "/a"}, ".3 ok")}]
    )
    asked = editor.until(lambda frame: frame.get("method") == "fs/read_text_file")
    assert chunks(editor.seen) == ["see v1.2"]
    editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": "x"}})
    assert editor.wait(number)["result"]["stopReason"] == "end_turn"
    replayed, _ = editor.load(id, tmp_path)
    text = "".join(u["content"]["text"] for u in replayed if "agent_m" in u["sessionUpdate"])
    assert text.startswith("see v1.2.3 ok")


@pytest.mark.usefixtures("hasty")
def test_a_word_that_is_followed_by_silence_is_shown(proxy, tmp_path, kept):
    """In mid-turn, without anything that would end it; it is on record then."""
    editor = proxy()
    id = editor.new(tmp_path)
    text = say("see v1.2", {"wait": True})
    number = editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": text}])
    editor.until(is_chunk("see v1.2"))
    said = [event.data["content"] for event in kept.events(id, types={"delta"})]
    assert "".join(said) == "see v1.2"
    editor.tell("session/cancel", sessionId=id)
    assert editor.wait(number)["result"] == {"stopReason": "cancelled"}


@pytest.fixture
def hasty(monkeypatch):
    """Words are not waited for as long as they are otherwise."""
    monkeypatch.setattr(channel, "_PAUSE_S", 0.2)


@pytest.fixture
def endless(monkeypatch):
    """No pause is long enough to end a word."""
    monkeypatch.setattr(channel, "_PAUSE_S", 600)


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("method", ["session/load", "session/close"])
def test_held_words_are_shown_before_a_session_is_loaded_or_closed(proxy, tmp_path, kept, method):
    """The replay comes after them, and the end does not swallow them."""
    editor = proxy()
    id = editor.new(tmp_path)
    text = say("see v1.2", {"wait": True})
    editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": text}])
    patience = time.monotonic() + 120
    while not list(kept.events(id, types={"delta"})) and time.monotonic() < patience:
        time.sleep(0.01)
    assert chunks(editor.seen) == []
    if method == "session/load":
        start = len(editor.seen)
        editor.load(id, tmp_path)
        first = editor.seen[start]
        assert is_chunk("see v1.2")(first)
        assert chunks(editor.seen[start + 1 :]) == ["see v1.2"]
    else:
        editor.call(method, sessionId=id)
        assert chunks(editor.seen) == ["see v1.2"]


def test_an_agent_that_dies_with_half_a_word_has_said_it(proxy, tmp_path, kept):
    """The editor is shown it before it hears of the death, and it is on record."""
    editor = proxy("--die", "stream")
    id = editor.new(tmp_path)
    editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "v1 v2_x v3"}])
    shown = "".join(chunks(editor.seen))
    assert shown
    said = "".join(event.data["content"] for event in kept.events(id, types={"delta"}))
    assert said == shown


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("stall", [2, 8])
def test_a_secret_in_pieces_is_shown_and_not_recorded(proxy, store_place, tmp_path, stall):
    """The editor has every word as it was; no file of the store has a part of the secret."""
    editor = proxy()
    id = editor.new(tmp_path)
    pieces = ["it is ", *[TOKEN[at : at + 3] for at in range(0, len(TOKEN), 3)], " so"]
    pieces.insert(stall, {"silent": 1.5})  # networks stall for as long, and longer
    start = len(editor.seen)
    editor.prompt(id, say(*pieces))
    assert "".join(chunks(editor.seen[start:])).startswith(f"it is {TOKEN} so")
    replayed, _ = editor.load(id, tmp_path)
    editor.end()
    # What every token of its kind begins with is a word like others: if more of it comes later, it
    # is on record by then.
    assert re.search(r"it is (ghp)?\[secret:github_pat:", json.dumps(replayed))
    assert TOKEN[6:14].encode() not in bytes_of(store_place)


@pytest.mark.usefixtures("endless")
def test_who_prompts_an_agent_gets_every_update_in_order(tmp_path, agent_command):
    """The client: what is held back comes with more words, with a request, or at the end."""
    pieces = ["see v1.2", ".3_x", {"read": "/a"}, "y9", {"plan": True}, " and f00_b4r"]

    async def work(hf):
        config = ClientConfig(cwd=str(tmp_path), quiet_s=0.1)
        async with await create_or_resume(agent_command(), None, config, library=hf) as talk:
            turn = await talk.send(say(*pieces))
            updates = [update async for update in turn]
            answer = await turn.answer()
        return updates, answer

    with Holdfast(tmp_path / "store", redaction="mark") as hf:
        updates, answer = asyncio.run(work(hf))
    kinds = [update.kind for update in updates]
    assert [update.text for update in updates if update.text][:4] == [*("see v1.2", ".3_x", "y9", " and f00_b4r")]
    assert kinds.index("plan") == 3
    assert answer.text.startswith("see v1.2.3_xy9 and f00_b4r")


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("dies", [True, False])
def test_who_prompts_an_agent_gets_the_word_before_silence(tmp_path, agent_command, dies):
    """After a pause, or with the agent's death."""

    async def work(hf):
        config = ClientConfig(cwd=str(tmp_path), quiet_s=0.1)
        wishes = ["--die", "stream"] if dies else []
        async with await create_or_resume(agent_command(*wishes), None, config, library=hf) as talk:
            turn = await talk.send("v1 v2_x v3" if dies else say("see v1.2", {"wait": True}))
            update = await anext(turn)
            said = [event.data["content"] for event in hf.events(talk.id, types={"delta"})]
            if not dies:
                turn.cancel()
            with contextlib.suppress(AgentError):
                await turn.answer()
        return update.text, "".join(said)

    with Holdfast(tmp_path / "store", redaction="mark") as hf:
        shown, said = asyncio.run(work(hf))
    assert shown
    assert shown == said
