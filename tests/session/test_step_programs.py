"""Programs that take durable steps and are killed: the next process goes on, and does nothing twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

from holdfast.errors import Locked
from holdfast.library import Holdfast


def status_of(hf, id):
    with hf.session(id, read_only=True) as reader:
        return reader.state.status


PROGRAM = """
import sys, holdfast
root, effects, die_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
def work(n):
    with open(effects, "a") as file:
        file.write(f"{n}\\n")
    if n == die_at:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    return n
with holdfast.open(root).session("job") as s:
    total = sum(s.once(f"n{n}", work, n, unknown=lambda step: int(step.key[1:])) for n in range(40))
print(total)
"""


@pytest.mark.parametrize("scheme", ["", "sqlite:///"])
def test_a_loop_that_is_killed_goes_on_with_the_next_step(tmp_path, scheme):
    """Killed inside of steps: known ones do not run again, the one that was cut is asked about."""
    store = f"{scheme}{tmp_path}/store" + (".db" if scheme else "")
    effects = tmp_path / "effects"
    script = [sys.executable, "-c", PROGRAM, store, str(effects)]
    for die_at in (3, 20):
        run = subprocess.run([*script, str(die_at)], capture_output=True, timeout=120, check=False)
        assert run.returncode == -signal.SIGKILL, run.stderr
    run = subprocess.run([*script, "-1"], capture_output=True, timeout=120, check=False)
    assert run.stdout.split() == [b"780"], run.stderr
    assert effects.read_text().split() == [str(n) for n in range(40)]


def test_another_process_that_did_the_step_meanwhile_is_noticed(tmp_path):
    """A session opened before another process did the step does not do it again."""
    mine = Holdfast(tmp_path / "store", timers=False)
    s = mine.session("a")  # nothing is recorded yet, so that nobody is kept out
    program = """
        import sys, holdfast
        with holdfast.open(sys.argv[1]).session("a") as s:
            s.once("pay", lambda: "theirs")
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "store")]
    subprocess.run(command, check=True, timeout=120)
    assert s.once("pay", pytest.fail) == "theirs"
    mine.close()


def test_a_session_that_another_process_has_runs_no_step(tmp_path):
    """The lock decides who may do it: Locked before the function runs."""
    program = """
        import sys, holdfast
        with holdfast.open(sys.argv[1]).session("a") as s:
            s.user("mine")
            print("ready", flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "store")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with Holdfast(tmp_path / "store", timers=False) as hf, pytest.raises(Locked):
            hf.session("a").once("pay", pytest.fail, "pay")
        other.stdin.close()


def test_killed_in_a_step_the_session_is_interrupted(tmp_path):
    """Lists say that work was cut short; a step that went through leaves the session idle."""
    program = """
        import os, signal, sys, holdfast
        s = holdfast.open(sys.argv[1]).session("a")
        s.once("good", lambda: 1)
        s.once("bad", lambda: os.kill(os.getpid(), signal.SIGKILL))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "store")]
    subprocess.run(command, check=False, timeout=120)
    with Holdfast(tmp_path / "store", timers=False) as hf:
        assert status_of(hf, "a") == "interrupted"
        with hf.session("a") as s:
            s.once("bad", lambda: 1, unknown="rerun")
            s.user("go on")
        assert status_of(hf, "a") == "idle"


FAILING = """
import os, signal, sys, time, holdfast
url, marks = sys.argv[1:]
def fail():
    with open(marks, "a") as file:
        file.write(f"{time.time()}\\n")
    if os.path.getsize(marks) < 30:
        time.sleep = lambda seconds: os.kill(os.getpid(), signal.SIGKILL)
        raise ConnectionError("down")
    return "up"
with holdfast.open(url) as hf, hf.session("job", wait_ms=60_000, lease_ms=1_000) as s:
    print(s.once("call", fail, retry=holdfast.Retry(3, wait_s=1.0, on=(ConnectionError,))))
"""


@pytest.mark.stores("files", "sqlite", "postgres", "s3")
def test_a_wait_before_a_retry_survives_a_kill(store_url, tmp_path):
    """Killed while it waits: the next process waits for what is left, and the failure is no unknown outcome."""
    marks = tmp_path / "marks"
    command = [sys.executable, "-c", FAILING, store_url, str(marks)]
    killed = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    later = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert later.stdout.split() == ["up"], later.stderr
    first, second = map(float, marks.read_text().split())
    assert second - first >= 1.0


GATHERING = """
import asyncio, os, random, signal, sys, holdfast
url, effects, seed, die_after = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def done():
    return open(effects).read().split() if os.path.exists(effects) else []
async def work(n):
    await asyncio.sleep(random.random() / 100)
    with open(effects, "a") as file:
        file.write(f"{n}\\n")
    if len(done()) == die_after:
        os.kill(os.getpid(), signal.SIGKILL)
    return n
def look_up(step):
    return int(step.key) if step.key in done() else holdfast.RERUN
async def main():
    order = random.Random(seed).sample(range(100), 100)
    async with holdfast.open(url).session("job") as s:
        return await asyncio.gather(*(s.aonce(str(n), work, n, unknown=look_up) for n in order)) == order
print(asyncio.run(main()))
"""


def test_gathered_steps_that_are_killed_go_on_in_another_order(tmp_path):
    """A hundred at once, killed twice in the middle: each has its own result, and took effect once."""
    effects = tmp_path / "effects"
    for seed, die_after, code in ((1, 30, -signal.SIGKILL), (2, 70, -signal.SIGKILL), (3, 0, 0)):
        given = [str(tmp_path / "store"), str(effects), str(seed), str(die_after)]
        run = subprocess.run([sys.executable, "-c", GATHERING, *given], capture_output=True, timeout=120, check=False)
        assert run.returncode == code, run.stderr
    assert run.stdout.split() == [b"True"]
    assert sorted(map(int, effects.read_text().split())) == list(range(100))


SHARING = """
import sys, holdfast
url, effects = sys.argv[1:]
def work(n):
    with open(effects, "a") as file:
        file.write(f"{n}\\n")
    return n
for n in range(5):
    with holdfast.open(url) as hf, hf.session("job", wait_ms=60_000) as s:
        assert s.once(f"n{n}", work, n) == n
"""


def test_two_processes_that_wait_for_each_other_do_each_step_once(tmp_path):
    """Who has the session next finds the result of who had it before."""
    effects = tmp_path / "effects"
    command = [sys.executable, "-c", SHARING, str(tmp_path / "store"), str(effects)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    for one in running:
        assert one.communicate(timeout=120)[1] == b""
        assert one.returncode == 0
    assert sorted(map(int, effects.read_text().split())) == list(range(5))
