"""The recording disk: a file system, and an honest account of what a crash leaves of it."""

from __future__ import annotations

import errno

import pytest

from holdfast.testing import SimDisk


def made(disk, name, data=b"", *, sync=False):
    """A file at the top with some bytes; its descriptor."""
    root = disk.open_root()
    descriptor = disk.open_log(name, root, create=True)
    if data:
        disk.write(descriptor, data)
    if sync:
        disk.sync(descriptor)
        disk.sync_directory(root)
    disk.close(root)
    return descriptor


def contents(disk, name="a", mode="power", **options):
    """What a crash may leave of a file; None for nothing."""
    return {state.content(f"/{name}") for state in disk.crash_states(mode, **options)}


def later(disk, act, name="a", **options):
    """What a crash during or after ``act`` may leave of a file."""
    disk.acknowledge("before", survives_power_loss=True)
    act()
    states = disk.crash_states("power", **options)
    return {state.content(f"/{name}") for state in states if state.acknowledged}


def test_unsynced_bytes_are_cut_anywhere_or_zero():
    """Unsynced bytes may be missing, cut at any byte, or zeros up to the new size."""
    disk = SimDisk()
    made(disk, "a", b"wxyz")
    assert contents(disk) == {None, b"", b"w", b"wx", b"wxy", b"wxyz", b"\0" * 4, b"wx\0\0"}


def test_synced_bytes_stay():
    """What was synced, with its name, is in every state after it."""
    disk = SimDisk()
    descriptor = made(disk, "a", b"safe", sync=True)
    assert later(disk, lambda: disk.write(descriptor, b"!?")) == {
        *(b"safe", b"safe!", b"safe!?", b"safe\0\0", b"safe!\0")
    }


def test_synced_bytes_without_a_name_are_lost():
    """A synced file whose directory was not synced may have no name."""
    disk = SimDisk()
    descriptor = made(disk, "a", b"data")
    disk.sync(descriptor)
    assert None in contents(disk)
    disk.sync_directory(disk.open_root())
    assert later(disk, lambda: None) == {b"data"}


def test_names_come_in_order():
    """Of names that were made one after the other the later ones go first."""
    disk = SimDisk()
    for name in "abc":
        made(disk, name)
    names = {frozenset(state.paths) for state in disk.crash_states("power")}
    assert names == {frozenset(f"/{n}" for n in "abc"[:count]) for count in range(4)}


def test_names_in_any_combination():
    """With subsets any combination of unsynced names may survive."""
    disk = SimDisk()
    for name in "ab":
        made(disk, name)
    names = {frozenset(state.paths) for state in disk.crash_states("power", subsets=True)}
    assert names == {frozenset(), frozenset({"/a"}), frozenset({"/b"}), frozenset({"/a", "/b"})}


def test_sync_of_a_directory_does_not_reach_up():
    """A directory that was synced itself may still be lost with its own name."""
    disk = SimDisk()
    root = disk.open_root()
    disk.make_directory("d", root)
    below = disk.open_directory("d", root)
    disk.close(disk.open_new("f", below))
    disk.sync_directory(below)
    assert frozenset() in {frozenset(state.paths) for state in disk.crash_states("power")}
    [_, worst, *_] = disk.end_states()
    assert worst.paths == {}
    disk.sync_directory(root)
    [_, worst, *_] = disk.end_states()
    assert set(worst.paths) == {"/d", "/d/f"}


def test_rename_is_all_or_nothing():
    """A rename leaves the old name with the old file or the new name with the new one."""
    disk = SimDisk()
    made(disk, "a", b"old", sync=True)
    made(disk, "b", b"new", sync=True)
    root = disk.open_root()
    assert later(disk, lambda: disk.rename("b", root, "a", root)) == {b"old", b"new"}


def test_unsynced_rename_of_unsynced_bytes():
    """A rename may survive when the bytes of the file do not."""
    disk = SimDisk()
    made(disk, "a", b"old", sync=True)
    made(disk, "b", b"new")
    root = disk.open_root()
    assert later(disk, lambda: disk.rename("b", root, "a", root)) >= {b"old", b"", b"new"}


def test_cut_may_have_happened_or_not():
    """An unsynced cut may have happened or not."""
    disk = SimDisk()
    descriptor = made(disk, "a", b"whole", sync=True)
    assert later(disk, lambda: disk.truncate(descriptor, 2)) == {b"whole", b"wh"}


def test_kill_loses_nothing_done():
    """A kill leaves all that was done, and the last write cut at any byte."""
    disk = SimDisk()
    descriptor = made(disk, "a", b"one")
    disk.write(descriptor, b"two")
    assert contents(disk, mode="kill") == {*(None, b"", b"o", b"on", b"one", b"onet", b"onetw", b"onetwo")}


def test_acknowledged_is_told_with_the_state():
    """A state comes with what had been acknowledged when it could be."""
    disk = SimDisk()
    made(disk, "a", b"data", sync=True)
    disk.acknowledge("only a kill", survives_power_loss=False)
    disk.acknowledge("anything", survives_power_loss=True)
    found = [(s.content("/a"), s.acknowledged) for s in disk.crash_states("power")]
    assert found[-1] == (b"data", ("anything",))
    assert all(content == b"data" for content, told in found if told)
    kept, worst, *_ = disk.end_states()
    assert kept.acknowledged == ("only a kill", "anything")
    assert worst.acknowledged == ("anything",)


def test_state_is_a_disk():
    """A state can be used as a disk, whose own crash states follow from there."""
    disk = SimDisk()
    root = disk.open_root()
    disk.make_directory("d", root)
    made(disk, "a", b"data", sync=True)
    disk.link("a", root, "b", root)
    again = next(disk.end_states()).disk()
    descriptor = made(again, "a", b"+")
    assert next(again.end_states()).content("/b") == b"data+"
    again.sync(descriptor)
    [_, worst, *_] = again.end_states()
    assert worst.content("/a") == b"data+"


def test_holes():
    """With holes a later unsynced write may survive an earlier one."""
    disk = SimDisk()
    descriptor = made(disk, "a", b"safe", sync=True)

    def act():
        disk.write(descriptor, b"11")
        disk.write(descriptor, b"22")
        made(disk, "other")

    assert b"safe\0\x0022" in later(disk, act, holes=True)
    assert b"safe\0\x0022" not in contents(disk)


ERRORS = [
    ("open_read", ("nothing",), errno.ENOENT),
    ("open_directory", ("nothing",), errno.ENOENT),
    ("open_directory", ("file",), errno.ENOTDIR),
    ("open_read", ("folder",), errno.EISDIR),
    ("open_new", ("file",), errno.EEXIST),
    ("make_directory", ("folder",), errno.EEXIST),
    ("unlink", ("nothing",), errno.ENOENT),
    ("unlink", ("folder",), errno.EISDIR),
    ("remove_directory", ("full",), errno.ENOTEMPTY),
    ("remove_directory", ("file",), errno.ENOTDIR),
]


@pytest.mark.parametrize(("call", "arguments", "number"), ERRORS)
def test_errors_are_those_of_the_system(call, arguments, number):
    """What cannot be done fails with the error that the real file system gives."""
    disk = SimDisk()
    root = disk.open_root()
    made(disk, "file")
    for name in ("folder", "full"):
        disk.make_directory(name, root)
    disk.make_directory("inner", disk.open_directory("full", root))
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is what counts
        getattr(disk, call)(*arguments, root)
    assert caught.value.errno == number


def test_closed_descriptors_are_gone():
    """A descriptor that was closed, or whose process was killed, is bad."""
    disk = SimDisk()
    descriptor = made(disk, "a", b"data")
    disk.close(descriptor)
    for act in (disk.sync, disk.node, disk.close):
        with pytest.raises(OSError, match="Bad file descriptor"):
            act(descriptor)
    descriptor = made(disk, "b", b"data")
    assert disk.lock(descriptor)
    disk.kill()
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.write(descriptor, b"more")
    disk.close(descriptor)  # tidying up after a kill is no error
    assert disk.open_count == 0
    assert disk.lock(made(disk, "b"))


def test_locks():
    """A lock belongs to a descriptor, and goes with it; waiting for oneself is an error."""
    disk = SimDisk()
    first, second = made(disk, "a"), made(disk, "a")
    assert disk.lock(first)
    assert disk.lock(first)
    assert not disk.lock(second)
    with pytest.raises(OSError, match=r"deadlock|would occur"):
        disk.lock(second, wait=True)
    disk.close(first)
    assert disk.lock(second)
