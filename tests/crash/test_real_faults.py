"""Real shortage: of space, descriptors, memory and time on a processor, and a disk turned off."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest
from campaign_log import FULL, record
from kill_rounds import Rounds, check_session
from needed_programs import why_missing

from holdfast import Holdfast
from holdfast import errors as documented
from holdfast.errors import HoldfastError, StoreFull

CHILD = Path(__file__).with_name("limit_child.py")
DISK_BYTES = 1 << 20


@contextmanager
def small_disk(place):
    """A real file system of 1 MiB; skipped where none can be mounted."""
    place.mkdir(mode=0o700)
    options = f"size={DISK_BYTES},mode=0700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a real full disk not shown: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def fill(place, left):
    """Use up all but so many bytes."""
    free = os.statvfs(place)
    with (place / "filler").open("wb") as filler:
        filler.write(bytes(max(0, free.f_bavail * free.f_frsize - left)))


def test_disk_full_at_every_append(tmp_path):
    """However many bytes are left: StoreFull, nothing lost, and it goes on once there is space."""
    full = 0
    with small_disk(tmp_path / "disk") as place, Holdfast(place / "store", timers=False) as hf:
        session = hf.session("a")
        session.user("<first>")
        promised = ["<first>"]
        for number in range(320 if FULL else 24):
            fill(place, 4096 * (number % 3))
            try:
                for part in range(60):
                    token = f"<{number}-{part}>"
                    session.append("note", {"text": token + "x" * 700})
                    promised.append(token)
            except StoreFull:
                full += 1
            (place / "filler").unlink()
            session.user(f"<after {number}>")
            promised.append(f"<after {number}>")
            if number % 8 == 7:
                session.close()
                check_session(place / "store", "a", promised)
                hf.store.drop("sessions/a")
                session, promised = hf.session("a"), []
        session.close()
    assert full > 10
    record("full disks", full)


def test_disk_turned_read_only(tmp_path):
    """Mounted for reading only it is read; writing is an error, and goes on when it may again."""
    with small_disk(tmp_path / "disk") as place:
        store = place / "store"
        with Holdfast(store, timers=False) as hf, hf.session("a") as session:
            session.user("<before>")
        remount = ["mount", "-o", "remount,ro", str(place)]
        if subprocess.run(remount, capture_output=True, check=False).returncode:
            pytest.skip("a read-only disk not shown: it cannot be mounted again")
        with Holdfast(store, timers=False) as hf:
            assert [event.type for event in hf.events("a")][-1] == "closed"
            with pytest.raises(HoldfastError), hf.session("a") as session:
                session.user("<refused>")
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        with Holdfast(store, timers=False) as hf, hf.session("a") as session:
            session.user("<after>")
        check_session(store, "a", ["<before>", "<after>"])


@pytest.mark.parametrize(
    ("what", "amounts"),
    [
        ("NOFILE", range(0, 20, 1 if FULL else 5)),
        ("FSIZE", range(0, 9_000, 500 if FULL else 3_000)),
        ("AS", range(0, 1 << 20, 1 << (17 if FULL else 19))),
    ],
)
def test_too_little_of_something(tmp_path, what, amounts):
    """Few descriptors, short files, no memory: documented errors, and afterwards it goes on."""
    for amount in amounts:
        store = tmp_path / f"store-{amount}"
        command = [sys.executable, str(CHILD), str(store), what, str(amount)]
        told = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, preexec_fn=no_signal
        ).stdout.splitlines()
        assert told[-1:] == ["done"], (amount, told)
        for line in told:
            known = (*documented.__all__, "MemoryError")
            assert not line.startswith("e ") or line[2:] in known, line
        check_session(store, "a", [line[2:] for line in told if line.startswith("a ")])


def no_signal():
    """A file that gets too long is an error, as Python has it, and not the end of the process."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def clock_library():
    """The library that gives a process another clock; skipped where there is none."""
    missing = why_missing("faketime", "faketime")
    found = sorted(Path("/usr/lib").glob("**/faketime/libfaketime.so.1"))
    if missing or not found:
        pytest.skip(f"a real clock that jumps not shown: {missing or 'no libfaketime'}")
    return str(found[0])


@pytest.mark.slow
def test_clock_jumps_while_it_writes(store_root, tmp_path):
    """Hours back, days ahead, another century: order is by seq, and nothing is lost or refused."""
    setting = tmp_path / "clock"
    jumps = ("+3d", "-400d", "@2037-12-31 23:59:59", "-1h", "@2001-02-03 04:05:06", "+0 x60")
    next_jump = cycle(jumps).__next__
    setting.write_text("+0")
    clock = {"LD_PRELOAD": clock_library(), "FAKETIME_TIMESTAMP_FILE": str(setting)}
    clock |= {"FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    with Rounds(store_root, env=clock) as rounds:
        for number in rounds.numbers(100 if FULL else 6, lambda: goes_back(store_root, "a")):
            rounds.kill_one(number, "a", meanwhile=lambda: setting.write_text(next_jump()))
            if rounds.appended["a"]:
                check_session(store_root, "a", rounds.appended["a"])
    assert goes_back(store_root, "a"), "it did not jump"
    with Holdfast(store_root, timers=False) as hf:
        assert [row.session_id for row in hf.list()] == ["a"]


def goes_back(root, id):
    """Whether an event is recorded whose time is before that of an earlier one."""
    with Holdfast(root, timers=False) as hf:
        times = [event.timestamp for event in hf.events(id)] if hf.exists(id) else []
    return times != sorted(times)


@pytest.mark.slow
def test_stopped_continued_and_killed(store_root):
    """Writers that are stopped in mid-call, go on much later or never, lose nothing they told."""
    chance = random.Random(5)
    with Rounds(store_root) as rounds:
        for number in rounds.numbers(400 if FULL else 15, lambda: rounds.appended["a"]):
            print(number, "a", file=rounds.zygote.stdin, flush=True)
            word, pid = rounds._line().split()
            assert word == "pid"
            for _ in range(chance.randrange(1, 4)):
                time.sleep(chance.uniform(0, 0.02))
                os.kill(int(pid), signal.SIGSTOP)
                with Holdfast(store_root, timers=False) as hf:
                    if hf.exists("a"):  # whoever reads is not held up by one who is stopped
                        seqs = [event.seq for event in hf.events("a")]
                        assert seqs == list(range(len(seqs)))
                os.kill(int(pid), signal.SIGCONT)
            os.kill(int(pid), signal.SIGKILL)
            rounds._take_promises("a")
        check_session(store_root, "a", rounds.appended["a"])
