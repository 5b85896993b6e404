"""The commands that look at damage and mend it, as people use them, killed at every step."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from campaign_log import FULL

from holdfast import Holdfast

CHILD = Path(__file__).with_name("mend_child.py")
WORDS = [f"<word {number}>" for number in range(6)]
LOST = 3
KILLED = -9


@pytest.fixture
def damaged(store_root):
    """A store with a session of which one event is damaged, and a torn tail."""
    with Holdfast(store_root, timers=False) as hf:
        with hf.session("a") as session:
            for word in WORDS:
                session.user(word)
        log = Path(hf.location("a")) / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(WORDS[LOST].encode(), b"<w0rd 3>") + b'{"seq":99,"ty')
    return store_root


@contextmanager
def commands(folder):
    """Runs the command; its exit code and what it printed."""
    zygote = subprocess.Popen([sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    output = folder / "output"

    def run(store, *arguments, nth=0):
        line = json.dumps([str(store), nth, str(output), arguments])
        print(line, file=zygote.stdin, flush=True)
        return int(zygote.stdout.readline()), output.read_text(encoding="utf-8")

    with zygote:
        assert zygote.stdout.readline() == "ready\n"
        yield run
        zygote.stdin.close()


def words_of(store):
    """What is read of the session."""
    with Holdfast(store, timers=False) as hf:
        return [event.data["content"] for event in hf.events("a", types=["user"])]


def kept_bytes(store):
    """Everything that was set aside."""
    return [path.read_bytes() for path in (store / "sessions" / "a" / "quarantine").iterdir()]


@pytest.mark.parametrize("halves", [True, False] if FULL else [True])
def test_repair_killed_at_every_step(damaged, tmp_path, halves):
    """It never makes things worse: every whole event stays, and the next repair ends it."""
    left = [word for number, word in enumerate(WORDS) if number != LOST]
    before = (damaged / "sessions" / "a" / "events.jsonl").read_bytes()
    with commands(tmp_path) as run:
        nth, status = 0, KILLED
        while status == KILLED:
            nth += 1
            store = tmp_path / f"store-{nth}"
            shutil.copytree(damaged, store)
            status, told = run(store, "repair", "a", nth=-nth if halves else nth)
            assert status in (KILLED, 0), told
            assert words_of(store) == left
            code, told = run(store, "repair", "a")
            assert code == 0, told
            assert "1 event lost" in told or "is whole" in told
            assert run(store, "verify", "a")[0] == 0
            assert words_of(store) == left
            assert any(before.startswith(kept) and len(kept) > 500 for kept in kept_bytes(store))
            shutil.rmtree(store)
    assert nth > 15


def test_damage_is_told_in_plain_words(damaged, tmp_path):
    """Which event, where, how much; then what was done, and where the old bytes are."""
    with commands(tmp_path) as run:
        code, told = run(damaged, "verify", "a")
        assert code == 4
        assert "damaged" in told
        seq = LOST + 2  # after the start of the session, and its opening
        code, told = run(damaged, "repair", "a")
        assert code == 0
        assert f"Event {seq} is lost" in told
        assert "quarantine" in told
        code, told = run(damaged, "repair", "a")
        assert (code, "There is nothing to repair" in told) == (0, True)
