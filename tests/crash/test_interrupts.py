"""A key press at any moment: what was recorded stays whole, and the session goes on."""

from __future__ import annotations

import random
import signal

import pytest

from holdfast import Holdfast

PRESSES = 800


@pytest.fixture
def pressed():
    """Interrupts the program like a key press, after a time; returns how to set the time."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
def test_interrupted_at_any_moment(store_root, pressed, capsys):
    """Of a thousand interrupted appends none leaves damage, and none that returned is lost."""
    times = random.Random(1)
    returned, interrupted = [], 0
    with Holdfast(store_root, timers=False) as hf:
        session = hf.session("a")
        session.user("first")
        for number in range(PRESSES):
            try:
                pressed(times.uniform(0.000_05, 0.003))
                for step in range(200):
                    record(session, number, step, returned)
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                pressed(0)
        session.close()
        report = hf.verify("a")
        texts = [event.data.get("content") for event in hf.events("a", types=["user"])]
    with capsys.disabled():
        print(f" [{interrupted:,} interrupts, {len(returned):,} appends] ", end="")  # noqa: T201
    assert report.ok, report.explain()
    assert interrupted > PRESSES // 2
    assert [text for text in texts if text in set(returned)] == returned
    assert len(set(texts)) == len(texts)


def record(session, number, step, returned):
    text = f"{number}-{step}"
    if step % 7 == 3:
        session.extend([("user", {"role": "user", "content": text})])
    elif step % 50 == 49:
        session.flush()
        return
    else:
        session.user(text)
    returned.append(text)
