"""How often a load reads the log: its door is the proxy, or our own agent."""

from __future__ import annotations

import threading

import pytest

from holdfast.apps.acp.agent.editor import EditorKit
from holdfast.apps.acp.agent.server import AgentServer
from holdfast.apps.acp.agent.session import Live
from holdfast.library import Holdfast
from holdfast.storage.files.log import FileLog

SAID = "word" * 18_000
TIMES = 4
LOOKS = 2


@pytest.fixture
def spans(monkeypatch):
    """Which bytes of logs are read, as pairs of offsets, in the order in which it is begun."""
    found = []
    read, read_tail, read_part = FileLog.read, FileLog.read_tail, FileLog.read_part

    def noted_read(self, start=0):
        span = [start, start]
        found.append(span)
        for chunk in read(self, start):
            span[1] += len(chunk)
            yield chunk

    def noted_tail(self, max_bytes):
        start, data = read_tail(self, max_bytes)
        found.append([start, start + len(data)])
        return start, data

    def noted_part(self, start, stop):
        found.append([start, stop])
        return read_part(self, start, stop)

    monkeypatch.setattr(FileLog, "read", noted_read)
    monkeypatch.setattr(FileLog, "read_tail", noted_tail)
    monkeypatch.setattr(FileLog, "read_part", noted_part)
    return found


def size_of(store_place):
    """How long the log of the only session is, and that session's id."""
    with Holdfast(store_place) as hf:
        [row] = hf.list()
        return row.session_id, hf.store.log(f"sessions/{row.session_id}").size()


def passes(spans, size):
    """How often the first half of the log was read; to open it, what follows a snapshot is too."""
    half = size // 2
    return sum(max(0, min(stop, half) - start) for start, stop in spans) / half


def check_load(editor, id, size, cwd, spans, *, wait=lambda: None):
    """Load a session: all of it is told, and read once for that."""
    spans.clear()
    updates, _ = editor.load(id, cwd)
    wait()
    said = [u["content"]["text"] for u in updates if u["sessionUpdate"] == "user_message_chunk"]
    assert said == [SAID] * TIMES
    assert passes(spans, size) == 1
    assert len(spans) <= LOOKS


def test_a_load_through_the_proxy_reads_the_log_once(store_place, proxy, tmp_path, spans):
    """Of what the agent has as well, the past is told in one pass over the log."""
    editor = proxy("--load", "yes")
    id = editor.new(tmp_path)
    for _ in range(TIMES):
        editor.prompt(id, SAID)
    editor.end()
    check_load(proxy("--load", "yes"), *size_of(store_place), tmp_path, spans)


@pytest.fixture
def asked_again(monkeypatch):
    """Set when the agent has looked for questions that the loaded session waits for."""
    done, ask_again = threading.Event(), Live.ask_again

    async def noted(self, *, is_shown):
        await ask_again(self, is_shown=is_shown)
        done.set()

    monkeypatch.setattr(Live, "ask_again", noted)
    return done


def test_a_load_of_our_agent_reads_the_log_once(store_place, start, tmp_path, spans, asked_again):
    """The past is told in one pass over the log, and nothing is read to ask again where nothing was asked."""
    with Holdfast(store_place) as hf, hf.session(agent_id="a", agent_type="agent") as session:
        for _ in range(TIMES):
            session.user(SAID)
            session.assistant("yes")

    async def serve(pipe):
        with Holdfast(store_place, timers=False) as hf:
            await AgentServer(hf, EditorKit(make_model=lambda: None), pipe).run()

    editor = start(serve)
    editor.initialize()
    check_load(editor, *size_of(store_place), tmp_path, spans, wait=lambda: asked_again.wait(30))
