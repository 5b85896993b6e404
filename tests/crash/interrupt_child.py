"""Records while being interrupted like by a key press; prints what came of it as JSON.

A process of its own: an interrupt inside the tool that measures coverage would leave its lock held.
"""

from __future__ import annotations

import json
import random
import signal
import sys

from holdfast import Holdfast


def interrupt(number, frame):
    """What a key press does."""
    raise KeyboardInterrupt


def press_after(seconds):
    """Interrupt the program after a time; 0 takes it back."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def record(session, number, step, returned):
    """One step of the work; what was acknowledged is in ``returned``."""
    text = f"{number}-{step}"
    if step % 50 == 49:
        session.flush()
        return
    if step % 7 == 3:
        session.extend([("user", {"role": "user", "content": text})])
    else:
        session.user(text)
    returned.append(text)


def main(root, presses):
    """Work, be interrupted, go on; at the end look at everything."""
    signal.signal(signal.SIGALRM, interrupt)
    times = random.Random(1)
    returned, interrupted = [], 0
    with Holdfast(root, timers=False) as hf:
        session = hf.session("a")
        session.user("first")
        for number in range(presses):
            try:
                press_after(times.uniform(0.000_05, 0.003))
                for step in range(200):
                    record(session, number, step, returned)
                press_after(0)
            except KeyboardInterrupt:
                interrupted += 1
        press_after(0)
        in_step = session.state == hf.state("a")
        session.close()
        report = hf.verify("a")
        texts = [event.data.get("content") for event in hf.events("a", types=["user"])]
    result = {
        "ok": report.ok,
        "why": report.explain(),
        "in_step": in_step,
        "interrupted": interrupted,
        "returned": len(returned),
        "kept": [text for text in texts if text in set(returned)] == returned,
        "doubled": len(texts) - len(set(texts)),
    }
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
