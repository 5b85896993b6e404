"""The faulty disk: fails where it is told to, and nowhere else."""

from __future__ import annotations

import errno

import pytest

from holdfast.storage import Disk
from holdfast.testing import DISK_CALLS, FaultyDisk, SimDisk


def written(disk, count=3):
    """Write three times; what came of each."""
    root = disk.open_root()
    descriptor = disk.open_log("a", root, create=True)
    results = []
    for _ in range(count):
        try:
            results.append(disk.write(descriptor, b"1234"))
        except OSError as error:
            results.append(errno.errorcode[error.errno])
    return results


def test_every_call_is_there():
    """It has every call of the real disk, by the same name."""
    assert set(DISK_CALLS) == {name for name in vars(Disk) if not name.startswith("_")}
    assert all(getattr(FaultyDisk, call).__name__ == call for call in DISK_CALLS)


def test_fails_once():
    """The n-th use fails with the given error; the others work."""
    disk = FaultyDisk(SimDisk(), call="write", nth=2, errno=errno.ENOSPC)
    assert written(disk) == [4, "ENOSPC", 4]
    assert disk.fired == 1
    assert disk.counts["write"] == 3
    assert next(disk.inner.end_states()).content("/a") == b"12341234"


def test_fails_for_good():
    """With persistent, the n-th use and all after it fail."""
    disk = FaultyDisk(SimDisk(), call="write", nth=2, persistent=True)
    assert written(disk) == [4, "EIO", "EIO"]


@pytest.mark.parametrize(("short", "taken"), [(0, 0), (1, 1), (0.5, 2), (3, 3)])
def test_writes_short(short, taken):
    """A short write takes so many bytes, or such a part of them."""
    disk = FaultyDisk(SimDisk(), call="write", nth=1, short=short)
    assert written(disk, 1) == [taken]
    assert next(disk.inner.end_states()).content("/a") == b"1234"[:taken]


def test_any_call():
    """Without a name the n-th call of any kind fails."""
    disk = FaultyDisk(SimDisk(), nth=2, errno=errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        written(disk)
    assert disk.counts["*"] == 2


def test_interrupt_comes_after_the_call():
    """An interrupt comes when the call is done, as it does in a program."""
    disk = FaultyDisk(SimDisk(), call="write", nth=1, interrupt=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        written(disk)
    assert next(disk.inner.end_states()).content("/a") == b"1234"


def test_close_closes_though_it_fails():
    """A close that fails has closed all the same, as on a real system."""
    disk = FaultyDisk(SimDisk(), call="close", nth=1)
    descriptor = disk.open_root()
    with pytest.raises(OSError, match="Input/output"):
        disk.close(descriptor)
    assert disk.inner.open_count == 0


def test_works_on_the_real_disk(tmp_path):
    """Without a disk to stand before it stands before the real one."""
    disk = FaultyDisk(call="make_directory", nth=1)
    root = disk.open_root()
    with pytest.raises(OSError, match="Input/output"):
        disk.make_directory("never", root)
    disk.close(root)
