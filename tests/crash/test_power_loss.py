"""Power loss on a real file system: one behind FUSE that forgets what was not synced."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from campaign_log import record
from kill_rounds import Rounds, check_session
from needed_programs import why_missing

ROUNDS = 1_000 if os.environ.get("CRASH_CAMPAIGN") == "full" else 60
ROUNDS_PER_SESSION = 10
LAYER = Path(__file__).with_name("fuse_layer.py")


def why_not():
    """Why there can be no FUSE file system on this machine, or None."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "no access to /dev/fuse"
    missing = why_missing("fusermount3", "fuse3")
    if missing:
        return missing
    try:
        import mfusepy  # noqa: F401 - whether it is there
    except (ImportError, OSError) as error:
        return f"mfusepy cannot be used: {error}"
    return None


@pytest.fixture
def mounted(tmp_path):
    """The mount point of the forgetful file system, and a file with what it has to complain of."""
    reason = why_not()
    if reason:
        pytest.skip(f"power loss on FUSE not shown: {reason}")
    place = tmp_path / "mounted"
    place.mkdir(mode=0o700)
    complaints = tmp_path / "complaints"
    with complaints.open("w") as sink:
        layer = subprocess.Popen([sys.executable, str(LAYER), str(place), "1"], stdout=sink, stderr=sink)
        try:
            wait_for_mount(place, layer, complaints)
            yield place, complaints
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(place)], check=False)
            layer.wait(120)


def wait_for_mount(place, layer, complaints):
    for _ in range(2_400):
        if os.path.ismount(place):
            return
        if layer.poll() is not None:
            pytest.skip(f"power loss on FUSE not shown: {complaints.read_text()[-200:]}")
        time.sleep(0.05)
    pytest.fail("the file system was not mounted in time")


def lose_power(place):
    with pytest.raises(OSError, match="already in progress"):
        (place / ".power-loss").mkdir()


def test_the_layer_forgets(mounted):
    """Only what was synced, with its name, survives: else the next test would show nothing."""
    place, _ = mounted
    folder = os.open(place, os.O_RDONLY)
    for name, sync in (("synced", True), ("not-synced", False)):
        descriptor = os.open(place / name, os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(descriptor, b"text")
        if sync:
            os.fsync(descriptor)
            os.fsync(folder)
        os.close(descriptor)
    os.close(folder)
    names = set()
    for _ in range(10):  # what was not synced may survive by luck
        lose_power(place)
        names = set(os.listdir(place))
        assert (place / "synced").read_bytes() == b"text"
        if "not-synced" in names:
            (place / "not-synced").unlink()
            (place / "not-synced").write_bytes(b"text")
    assert names == {"synced"}


@pytest.mark.slow
@pytest.mark.req("S2-104")
def test_power_loss_at_random_moments(mounted, capsys):
    """After each power loss every flushed event is there; every session reads and goes on."""
    place, complaints = mounted
    store = place / "store"

    def flushed_events():
        return sum(map(len, rounds.flushed.values()))

    with Rounds(store) as rounds:
        for number in rounds.numbers(ROUNDS, lambda: flushed_events() > ROUNDS // 2):
            id = f"session-{number // ROUNDS_PER_SESSION}"
            rounds.kill_one(number, id)
            lose_power(place)
            for known, flushed in rounds.flushed.items():
                if flushed:
                    check_session(store, known, flushed, blobs=False)
            # What was appended and not flushed may be gone; what is left of it is as good as any.
            rounds.appended[id] = sorted(rounds.flushed[id])
    assert "Traceback" not in complaints.read_text()
    with capsys.disabled():
        print(f" [{ROUNDS} power losses, {flushed_events():,} flushed events] ", end="")  # noqa: T201 - how much was tried
    assert flushed_events() > ROUNDS // 2
    record("power losses", ROUNDS)
