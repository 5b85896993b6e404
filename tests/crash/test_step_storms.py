"""Storms of kill -9 over durable steps, with a counter of what they did outside."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback

import pytest
from campaign_log import FULL, record

import holdfast

ROUNDS = {"files": 4000, "sqlite": 3000, "postgres": 3000} if FULL else {"files": 12, "sqlite": 6, "postgres": 4}
STEPS = 400  # of one session; then the storm goes on with another


class Outside:
    """What the steps did, and what was told as unknown, in files that no kill takes back."""

    def __init__(self, folder):
        self.effects, self.told = folder / "effects", folder / "told"
        for path in (self.effects, self.told):
            path.touch()

    def note(self, path, word):
        """One line, in one write."""
        place = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(place, f"{word}\n".encode())
        os.close(place)

    def lines(self, path):
        """All of them, in their order."""
        return path.read_text().split()


def work(address, id, outside):
    """All steps of a session, as far as this process lives; what is unknown is told, and looked up."""

    def act(number):
        outside.note(outside.effects, f"{id}/{number}")
        return number * 7

    def look_up(step):
        outside.note(outside.told, f"{id}/{step.key}")
        return int(step.key) * 7 if f"{id}/{step.key}" in outside.lines(outside.effects) else holdfast.RERUN

    with holdfast.open(address) as hf, hf.session(id, wait_ms=60_000) as session:
        for number in range(STEPS):
            assert session.once(str(number), act, number, unknown=look_up) == number * 7


def spawned(work, *arguments):
    """The pid of a process that works."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work(*arguments)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, it is told and the child ends
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def start(address, id, outside):
    """The pid of a process that does all steps of a session."""
    return spawned(work, address, id, outside)


def killed_after(pid, seconds):
    """Whether the process was killed; it may have come to its end before."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROUNDS)
def test_storm_over_steps(kind, tmp_path, request):
    """Killed at any moment: no step is done twice, none is lost, and what is unknown is told."""
    if kind == "postgres":
        address = request.getfixturevalue("postgres_url")
    else:
        address = f"sqlite:///{tmp_path}/store.db" if kind == "sqlite" else str(tmp_path / "store")
    chance, kills, sessions, doubled, lost, told = random.Random(kind), 0, 0, 0, 0, 0
    while kills < ROUNDS[kind]:
        (tmp_path / f"s{sessions}").mkdir()
        id, outside = f"s{sessions}", Outside(tmp_path / f"s{sessions}")
        sessions += 1
        is_over = False
        while not is_over and kills < ROUNDS[kind]:
            is_over = not killed_after(start(address, id, outside), chance.uniform(0.02, 0.35))
            kills += not is_over
        assert os.waitpid(start(address, id, outside), 0)[1] == 0
        done = outside.lines(outside.effects)
        doubled += len(done) - len(set(done))
        lost += STEPS - len(set(done))
        told += len(set(outside.lines(outside.told)))
    record("steps", kills, wrong=doubled + lost, note="unknown ones all told")
    assert (doubled, lost) == (0, 0), f"{kills} kills, {told} told"
