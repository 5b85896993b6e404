"""The log as a file: what its calls cost and what they leave when something fails."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from holdfast.errors import StoreError, StoreFull, SyncFailed, Unavailable
from holdfast.storage import FileStore
from holdfast.storage.files import log as _file_log
from holdfast.testing import FaultyDisk, SimDisk

KEY = "sessions/a"
LINES = [b"%d %s\n" % (number, b"x" * number) for number in range(5)]


def opened(disk):
    store = FileStore("/store", disk=disk)
    log = store.log(KEY)
    # Four writes: the card in the lock, the note that spellings were listed, the line for catalogues, that of the log.
    log.append(LINES[0], 0, 1, store.lease(KEY).acquire("me", 0))
    log.sync()
    return store, log


def content(store, key=KEY):
    return b"".join(store.log(key).read())


def test_append_is_one_write():
    """An append is one write and no other call; a flush after it is one sync."""
    disk = SimDisk()
    _, log = opened(disk)
    disk.calls.clear()
    log.append(LINES[1], 1, 1, 1)
    assert [name for name, _ in disk.calls] == ["write"]
    log.sync()
    log.sync()
    assert Counter(name for name, _ in disk.calls)["sync"] == 1


def test_first_sync_makes_the_way_safe():
    """The first sync syncs every directory on the way to the log, and those it had to make."""
    disk = SimDisk()
    opened(disk)
    assert Counter(name for name, _ in disk.calls)["sync_directory"] == 4  # a, sessions, store, /
    [_, worst, *_] = disk.end_states()
    assert worst.content("/store/sessions/a/events.jsonl") == LINES[0]


def test_sync_covers_what_another_process_left():
    """A flush by who only opened the log makes safe what a killed process had appended."""
    disk = SimDisk()
    _, log = opened(disk)
    log.append(LINES[1], 1, 1, 1)
    disk.kill()
    FileStore("/store", disk=disk).log(KEY).sync()
    [_, worst, *_] = disk.end_states()
    assert worst.content("/store/sessions/a/events.jsonl") == LINES[0] + LINES[1]


def test_failed_sync_is_final():
    """After a sync error the log takes nothing more and is never synced again."""
    disk = FaultyDisk(SimDisk(), call="sync", nth=2)
    _, log = opened(disk)
    log.append(LINES[1], 1, 1, 1)
    with pytest.raises(SyncFailed) as caught:
        log.sync()
    assert caught.value.errno == errno.EIO
    for again in (log.sync, lambda: log.append(LINES[2], 2, 1, 1)):
        with pytest.raises(SyncFailed):
            again()
    assert disk.counts["sync"] == 2
    assert log.unsaved() == LINES[1]


def test_unsaved_does_not_trust_the_cache():
    """After a failed sync the unsaved bytes come from memory: the kernel may have dropped them."""
    inner = SimDisk()
    disk = FaultyDisk(inner, call="sync", nth=2)
    _, log = opened(disk)
    log.append(LINES[1], 1, 1, 1)
    log.append(LINES[2], 2, 1, 1)
    with pytest.raises(SyncFailed):
        log.sync()
    inner.truncate(log._descriptor, len(LINES[0]))
    assert log.unsaved() == LINES[1] + LINES[2]


def test_unsaved_beyond_what_is_kept(monkeypatch):
    """What is too much to keep in memory is read from the file."""
    monkeypatch.setattr(_file_log, "_KEPT_BYTES_MAX", 10)
    _, log = opened(SimDisk())
    log.append(LINES[1], 1, 1, 1)
    assert log.unsaved() == LINES[1]
    log.append(LINES[4], 2, 1, 1)
    assert log.unsaved() == LINES[1] + LINES[4]
    log.sync()
    assert log.unsaved() == b""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk(number):
    """A full disk says how much is needed; nothing is added, and it goes on when there is space."""
    disk = FaultyDisk(SimDisk(), call="write", nth=5, errno=number)
    store, log = opened(disk)
    with pytest.raises(StoreFull) as caught:
        log.append(LINES[1], 1, 1, 1)
    assert caught.value.needed_bytes == len(LINES[1])
    assert content(store) == LINES[0]
    log.append(LINES[1], 1, 1, 1)
    log.sync()
    assert content(store) == LINES[0] + LINES[1]


def test_half_written_append_is_taken_back():
    """Of an append that was written in part nothing stays."""
    disk = FaultyDisk(SimDisk(), call="write", nth=5, short=2, persistent=False)
    store, log = opened(disk)
    real, disk.inner.write = disk.inner.write, disk.inner.write
    calls = []

    def write(descriptor, data):
        calls.append(data)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, data)

    disk.inner.write = write
    with pytest.raises(StoreFull):
        log.append(LINES[3], 1, 1, 1)
    assert content(store) == LINES[0]


def test_append_that_cannot_be_taken_back():
    """If a half-written append cannot be taken back the log is dead, and the next opening mends."""
    inner = SimDisk()
    disk = FaultyDisk(inner, call="truncate", nth=1, errno=errno.EIO)
    store, log = opened(disk)

    def write(descriptor, data, real=inner.write):
        real(descriptor, data[:2])
        raise OSError(errno.EIO, "gone")

    log._write = write
    for _ in range(2):
        with pytest.raises(StoreError, match="half-way"):
            log.append(LINES[3], 1, 1, 1)
    with pytest.raises(StoreError, match="half-way"):
        log.sync()
    again = store.log(KEY)
    again.cut(len(LINES[0]), 2)
    again.append(LINES[1], 1, 1, 2)
    assert content(store) == LINES[0] + LINES[1]


def test_bytes_of_another_are_not_cut():
    """A failed append takes back its own bytes only: more than those are left alone."""
    inner = SimDisk()
    store, log = opened(inner)

    def write(descriptor, data, real=inner.write):
        real(descriptor, b"someone else's line, longer than ours\n")
        raise OSError(errno.EIO, "gone")

    log._write = write
    with pytest.raises(StoreError, match="half-way"):
        log.append(LINES[1], 1, 1, 1)
    assert content(store) == LINES[0] + b"someone else's line, longer than ours\n"


def test_failure_to_look_loses_nothing():
    """If the size of the log cannot be asked for at opening, nothing is written or cut."""
    inner = SimDisk()
    opened(inner)[1].close()
    disk = FaultyDisk(inner, call="node", nth=2, errno=errno.EIO)
    store = FileStore("/store", disk=disk)
    log = store.log(KEY)
    with pytest.raises(StoreError):
        log.append(LINES[1], 1, 1, 1)
    disk.call, disk.nth = "write", disk.counts["write"] + 1
    with pytest.raises(StoreError):
        log.append(LINES[1], 1, 1, 1)
    assert content(store) == LINES[0]


def test_interrupted_append_is_not_added():
    """A key press in the middle of an append leaves the log as it was, and it goes on."""
    disk = FaultyDisk(SimDisk(), call="write", nth=5, interrupt=KeyboardInterrupt)
    store, log = opened(disk)
    with pytest.raises(KeyboardInterrupt):
        log.append(LINES[1], 1, 1, 1)
    assert content(store) == LINES[0]
    log.append(LINES[1], 1, 1, 1)
    log.sync()
    assert content(store) == LINES[0] + LINES[1]
    assert log.unsaved() == b""


def test_failed_cut_is_final():
    """After a cut that failed the log is dead: what the file holds is unknown."""
    disk = FaultyDisk(SimDisk(), call="sync", nth=3)
    _, log = opened(disk)
    log.append(LINES[1][:1], 1, 1, 1)
    with pytest.raises(SyncFailed):
        log.cut(len(LINES[0]), 1)
    with pytest.raises(SyncFailed):
        log.append(LINES[2], 1, 1, 1)


@pytest.mark.parametrize("call", ["open_new", "write", "sync", "link", "rename", "make_directory"])
def test_failed_replace_leaves_the_old_log(call):
    """A replace that fails leaves the old log, no new file, and can be tried again."""
    inner = SimDisk()
    opened(inner)
    inner.kill()
    disk = FaultyDisk(inner, call=call, nth=1, errno=errno.ENOSPC)
    store = FileStore("/store", disk=disk)
    with pytest.raises(StoreFull):
        store.log(KEY).replace([b"new\n"], 1)
    assert content(store) == LINES[0]
    paths = next(inner.end_states()).paths
    assert "/store/sessions/a/events.jsonl.new" not in paths
    store.log(KEY).replace([b"new\n"], 1)
    assert content(store) == b"new\n"


def test_old_bytes_are_safe_before_the_new_ones_come():
    """At no moment of a replace is the old log without a name that survives power loss."""
    disk = SimDisk()
    _, log = opened(disk)
    disk.acknowledge("safe", survives_power_loss=True)
    log.replace([b"new\n"], 1)
    for state in disk.crash_states("power", subsets=True):
        if state.acknowledged:
            everything = [data for _, data in state.paths.values()]
            assert LINES[0] in everything
            assert state.content("/store/sessions/a/events.jsonl") in (LINES[0], b"new\n")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_read_only_disk(number):
    """On a disk that cannot be written reading works, and writing says why it does not."""
    inner = SimDisk()
    opened(inner)
    inner.kill()
    for call in ("open_log", "open_lock"):
        disk = FaultyDisk(inner, call=call, nth=1, errno=number, persistent=True)
        store = FileStore("/store", disk=disk)
        assert content(store) == LINES[0]
        assert store.exists(KEY)
        act = store.lease(KEY).acquire if call == "open_lock" else store.log(KEY).append
        with pytest.raises(Unavailable, match="not allowed"):
            act(*(("me", 0) if call == "open_lock" else (LINES[1], 1, 1, 1)))


@pytest.mark.parametrize("torn", [b"half a li", b"x" * 300])
def test_a_tail_that_is_cut_while_it_is_read_is_not_mixed_with_what_follows(torn):
    """Whoever read half a line before it was cut off gets the whole one that came in its place."""
    store, log = opened(SimDisk())
    log.append(torn, 1, 1, 1)
    reading = store.log(KEY).read()
    read = [next(reading)]
    log.cut(len(LINES[0]), 1)
    for number, line in enumerate(LINES[1:], 1):
        log.append(line, number, 1, 1)
    assert b"".join([*read, *reading]) == b"".join(LINES)


class GrowingDisk(SimDisk):
    """A torn tail is longer at each of the first looks."""

    looks = 0

    def read_at(self, descriptor, size, offset):
        found = super().read_at(descriptor, size, offset)
        self.looks += 1
        return found[: self.looks * 4]


def test_a_tail_that_grows_is_read_to_its_end():
    """A look that shows less than there is ends nothing."""
    disk = GrowingDisk()
    store, log = opened(disk)
    log.append(b"no end of a line", 1, 1, 1)
    disk.looks = 0
    assert content(store) == LINES[0] + b"no end of a line"


def test_error_while_looking_is_not_absence():
    """That a log could not be looked for does not mean that there is none."""
    inner = SimDisk()
    opened(inner)
    inner.kill()
    for call, nth in (("open_directory", 2), ("node_at", 1)):
        store = FileStore("/store", disk=FaultyDisk(inner, call=call, nth=nth, errno=errno.EIO))
        with pytest.raises(StoreError):
            store.exists(KEY)
        store = FileStore("/store", disk=FaultyDisk(inner, call=call, nth=nth, errno=errno.EMFILE))
        with pytest.raises(StoreError):
            list(store.entries())


def test_real_short_writes(store_root):
    """With a limit on the size of files the system takes part of a write: nothing of it stays."""
    script = """
        import resource, sys
        from holdfast.errors import StoreFull
        from holdfast.storage import FileStore
        store = FileStore(sys.argv[1])
        log = store.log("sessions/a")
        epoch = store.lease("sessions/a").acquire("me", 0)
        log.append(b"first\\n", 0, 1, epoch)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
        try:
            log.append(b"x" * 2000 + b"\\n", 1, 1, epoch)
        except StoreFull as error:
            assert error.needed_bytes == 2001
            assert log.size() == 6, log.size()
        else:
            raise SystemExit("the limit was not noticed")
        log.append(b"small\\n", 1, 1, epoch)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        log.append(b"x" * 2000 + b"\\n", 2, 1, epoch)
        log.sync()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(store_root)], check=True, timeout=120)
    assert content(FileStore(store_root)) == b"first\nsmall\n" + b"x" * 2000 + b"\n"


def fill(log, epoch, written):
    """Append until it fails, and note what was appended."""
    for seq in range(1000):
        line = b"%d %s\n" % (seq, b"x" * 500)
        log.append(line, seq, 1, epoch)
        written.append(line)


def test_real_full_disk(tmp_path):
    """On a disk that is really full nothing is lost, and it goes on when there is space again."""
    place = tmp_path / "small"
    place.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("a really full disk not shown: no right to mount a small one")
    try:
        store = FileStore(place / "store")
        log = store.log(KEY)
        epoch = store.lease(KEY).acquire("me", 0)
        written = []
        with pytest.raises(StoreFull):
            fill(log, epoch, written)
        assert content(store) == b"".join(written)
        with pytest.raises(StoreFull):
            store.documents(KEY).put("blobs/x", b"x" * 5000)
        assert store.documents(KEY).names() == []
        subprocess.run(["mount", "-o", "remount,size=1m", str(place)], check=True)
        log.append(b"more\n", len(written), 1, epoch)
        log.sync()
        assert content(store) == b"".join(written) + b"more\n"
        log.close()
        store.close()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_closed_logs_hold_nothing_open(store_root, open_below):
    """Reading, appending and closing leave no descriptor behind."""
    store = FileStore(store_root)
    lease = store.lease(KEY)
    log = store.log(KEY)
    log.append(LINES[0], 0, 1, lease.acquire("me", 0))
    log.sync()
    reading = log.read()
    next(reading)
    reading.close()
    log.cut(1, 1)
    log.replace([b"new\n"], 1)
    store.documents(KEY).put("x", b"1", if_match="")
    assert open_below(store_root)
    log.close()
    lease.release()
    store.close()
    assert open_below(store_root) == []


@pytest.mark.parametrize("name", ["EMLINK", "EXDEV", "EPERM", "EOPNOTSUPP"])
def test_replaced_where_files_have_no_second_name(name):
    """A repair works there too: the old bytes go to quarantine as a copy, whole or made again."""
    disk = FaultyDisk(SimDisk(), call="link", nth=1, errno=getattr(errno, name), persistent=True)
    store, log = opened(disk)
    for number in (1, 2):
        log.append(LINES[number], number, 1, 1)
    log.sync()
    log.replace([b"new\n"], 1)
    assert content(store) == b"new\n"
    kept = store.documents(KEY)
    [aside] = kept.names("quarantine/")
    assert kept.get(aside)[0] == b"".join(LINES[:3])


def test_a_copy_in_quarantine_that_broke_off_is_made_again():
    """What a crash left of it is not taken for the whole."""
    disk = FaultyDisk(SimDisk(), call="link", nth=1, errno=errno.EPERM, persistent=True)
    store, log = opened(disk)
    with store._tree.opened(("sessions", "a")) as directory:
        node = disk.node_at("events.jsonl", directory)
    kept = store.documents(KEY)
    kept.put(f"quarantine/generation-{node.inode}-{node.size}", LINES[0][:1])
    log.replace([b"new\n"], 1)
    [aside] = kept.names("quarantine/")
    assert kept.get(aside)[0] == LINES[0]
