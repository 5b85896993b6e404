"""Many processes fight for one session on every store that several can reach."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

import holdfast
from holdfast.errors import Locked

FIGHTER = Path(__file__).with_name("fighter.py")
PROCESSES = 16
SECONDS = 60.0 if os.environ.get("CRASH_CAMPAIGN") == "full" else 0.0
SECONDS_MAX = 120.0  # so long a fight may go on until enough of them had their turn
WRITERS = 4
PAUSES = 2
PAUSE_S = 2.5  # well past the lease of a fighter


def _place(kind, request, tmp_path):
    if kind == "file":
        return str(tmp_path / "store")
    if kind == "sqlite":
        return f"sqlite://{tmp_path}/store.db"
    if kind == "postgres":
        return request.getfixturevalue("postgres_url")
    return request.getfixturevalue(f"{kind}_server").url(uuid4().hex)


@pytest.fixture(params=["file", "sqlite", "postgres", "moto", "seaweed"])
def url(request, tmp_path):
    """A store that is empty, and can be reached by several processes."""
    return _place(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres", "moto", "seaweed"])
def leasing_url(request, tmp_path):
    """The same, of those whose leases run out."""
    return _place(request.param, request, tmp_path)


SLEEPER = """
import sys, holdfast
hf = holdfast.open(sys.argv[1])
s = hf.session("s", lease_ms=1000, autosave_ms=0, snapshot_ms=0)
s.user("before"); s.flush()
print("ready", flush=True)
sys.stdin.readline()
try:
    s.user("after"); s.flush(); print("acknowledged", flush=True)
except holdfast.HoldfastError as error:
    print(error.code, flush=True)
try:
    s.user("again"); print("accepted", flush=True)
except holdfast.HoldfastError as error:
    print(error.code, flush=True)
"""


def test_a_paused_writer_that_wakes_up_is_fenced_and_nothing_of_it_is_read(leasing_url):
    """Its lease ran out, another one went on: what it says then is neither taken nor read."""
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, leasing_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as sleeper:
        assert sleeper.stdout.readline() == "ready\n"
        sleeper.send_signal(signal.SIGSTOP)
        with holdfast.open(leasing_url) as hf:
            with pytest.raises(Locked), hf.session("s"):
                pass
            other = _taken_over(hf)
            other.user("meanwhile")
            other.flush()
            sleeper.send_signal(signal.SIGCONT)
            said, _ = sleeper.communicate("go\n", timeout=60)
            assert said.split() == ["fenced", "fenced"]
            other.user("and on")
            other.close()
            texts = [event.data["content"] for event in hf.events("s", types=["user"])]
    assert texts == ["before", "meanwhile", "and on"]


def _taken_over(hf):
    """The session, once the holder's time has run out."""
    until = time.monotonic() + 30
    while True:
        try:
            return hf.session("s")
        except Locked:
            assert time.monotonic() < until
            time.sleep(0.2)


SECOND = """
import sys, holdfast
with holdfast.open(sys.argv[1]) as hf, hf.session("s") as s:
    s.user("two")
"""


def test_a_session_changes_hands_at_once_when_it_is_closed(leasing_url):
    """After a clean close the next writer does not wait for any term to run out."""
    with holdfast.open(leasing_url) as first:
        with first.session("s") as s:
            s.user("one")
        done = subprocess.run([sys.executable, "-c", SECOND, leasing_url], check=True, timeout=20)
        assert done.returncode == 0
        assert [e.data["content"] for e in first.events("s", types=["user"])] == ["one", "two"]


@pytest.mark.slow
def test_of_many_writers_one_at_a_time_is_acknowledged(url, tmp_path):
    """16 processes, some paused past their lease: no gap, nothing lost, nothing twice."""
    outs = [tmp_path / f"out-{n}" for n in range(PROCESSES)]
    stop = tmp_path / "stop"
    fighters = [subprocess.Popen([sys.executable, FIGHTER, url, f"f{n}", stop, out]) for n, out in enumerate(outs)]
    try:
        _pause_some(fighters, outs)
        stop.touch()
        for fighter in fighters:
            assert fighter.wait(120) == 0
    finally:
        for fighter in fighters:
            fighter.kill()
            fighter.wait()
    tried = {key for word, key in _notes(outs) if word == "try"}
    acknowledged = _acknowledged(outs)
    with holdfast.open(url) as hf:
        report = hf.verify("prize")
        assert report.ok, report.explain()
        events = list(hf.events("prize"))
        assert [event.seq for event in events] == list(range(len(events)))
        said = Counter(event.data["content"] for event in events if event.type == "user")
    assert set(said.values()) == {1}, "something is there twice"
    assert acknowledged <= set(said), "something that was acknowledged is lost"
    assert set(said) <= tried
    assert len(_writers(acknowledged)) >= WRITERS, "it was no fight"


def _pause_some(fighters, outs):
    """Stop some of them for longer than their lease while the others go on, until it was a fight.

    How soon enough of them had a turn is a matter of the machine, so it is waited for.
    """
    random.seed(7)
    began = time.monotonic()
    pauses = 0
    while (spent := time.monotonic() - began) < SECONDS_MAX:
        enough = pauses >= PAUSES and len(_writers(_acknowledged(outs))) >= WRITERS
        if enough and spent >= SECONDS:
            break
        chosen = random.sample(fighters, 4)
        for fighter in chosen:
            fighter.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        for fighter in chosen:
            fighter.send_signal(signal.SIGCONT)
        pauses += 1
        time.sleep(0.5)
    assert pauses >= PAUSES


def _notes(outs):
    """What they wrote down so far, word and key; a line that is being written is left out."""
    for out in outs:
        for line in out.read_text().splitlines() if out.exists() else ():
            if len(words := line.split()) >= 2:
                yield words[0], words[1]


def _acknowledged(outs):
    return {key for word, key in _notes(outs) if word == "ack"}


def _writers(keys):
    return {key.partition("-")[0] for key in keys}
