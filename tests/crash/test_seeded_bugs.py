"""The campaign against versions with a known bug: a bug that is not caught makes it void."""

from __future__ import annotations

import errno
from contextlib import ExitStack, nullcontext, suppress
from unittest.mock import patch

import pytest
from campaign_log import record
from crash_campaign import Run, existing_image, repeatable, run_workload
from crash_checker import Checker

from holdfast.errors import Fenced, SyncFailed
from holdfast.model import LineReader
from holdfast.session import Writer
from holdfast.storage.files import forms as _file_forms
from holdfast.storage.files import log as _file_log
from holdfast.storage.files import store as files
from holdfast.storage.files.documents import FileDocuments
from holdfast.storage.files.forms import FileForms
from holdfast.storage.files.log import FileLog
from holdfast.storage.files.parts import LOG_NAME, OpenLog
from holdfast.storage.files.store import FileStore
from holdfast.storage.files.tree import Tree, write_all
from holdfast.storage.sqlite.store import SQLiteLog, SQLiteStore
from holdfast.testing import SimDisk


class ShortDisk(SimDisk):
    """Every third write takes only half of the bytes."""

    writes = 0

    def write(self, descriptor, data):
        self.writes += 1
        return super().write(descriptor, data[: len(data) // 2 or 1] if self.writes % 3 == 0 else data)


def nothing(*arguments, **options):
    return None


def acknowledge_early(log):
    """A flush that returns without having synced."""


def put_without_sync(documents, folder, leaf, data, *, sync, put=FileDocuments._put_file):
    put(documents, folder, leaf, data, sync=False)


def put_over(documents, folder, leaf, data):
    documents._put_file(folder, leaf, data, sync=False)


def sync_own_only(log, sync=FileLog._sync_all):
    return sync(log) if log._descriptor is not None else False


def replace_in_place(log, chunks, epoch):
    log.close()
    with log._tree.opened(log._parts) as directory:
        descriptor = log._disk.open_log(LOG_NAME, directory, create=True)
        new = list(chunks)
        log._disk.truncate(descriptor, 0)
        for chunk in new:
            write_all(log._disk, descriptor, memoryview(chunk))
        log._disk.sync(descriptor)
        log._disk.close(descriptor)


def rename_only(store, source, target):
    tree = store._tree
    with tree.opened(source[:-1]) as above, tree.opened(target[:-1], create=True) as below:
        store._disk.rename(source[-1], above, target[-1], below)


def believe_block(reader, block, *, summed, checksum=LineReader._checksum):
    found = checksum(reader, block, summed=summed)
    return 0 if found is None and summed else found


def cut_without_keeping(log, offset, epoch):
    log._size = log._synced = offset


def write_unsynced(disk, name, directory, chunks, write=_file_forms.write_file):
    with patch.object(type(disk), "sync", nothing):
        write(disk, name, directory, chunks)


def sweep_first(forms, directory, opened, size, *, strict, write=FileForms._write_plain):
    forms._sweep(directory, "")
    write(forms, directory, opened, size, strict=strict)


def link_in_sight(tree, target):
    """A branch that is put together where it can be seen."""
    with tree.opened(target, create=True):
        return nullcontext(target)


BUGS = {
    "branched lines not synced": ([(OpenLog, "sync", nothing)], [("existing", ("fork",))]),
    "branch made in sight": (
        [(files, "making", link_in_sight), (FileStore, "_make_room", nothing), (FileStore, "_rename", nothing)],
        [("existing", ("fork",))],
    ),
    "archive not synced before the log goes": (
        [(_file_forms, "write_file", write_unsynced)],
        [("existing", ("archive",))],
    ),
    "branch removed before its copy is there": (
        [(FileForms, "_write_plain", sweep_first)],
        [("existing", ("fork", "detach"))],
    ),
    "no sync of directories": ([(Tree, "sync", nothing)], [("empty", ("append", "flush")), ("empty", ("tool",))]),
    "acknowledged before the sync": ([(FileLog, "sync", acknowledge_early)], [("existing", ("append", "flush"))]),
    "torn tail not handled": ([(FileLog, "cut", cut_without_keeping)], [("existing", ("append",))]),
    "short write ignored": ([(_file_log, "write_all", nothing)], [("existing", ("append", "append"))]),
    "checksum not checked": ([(LineReader, "_checksum", believe_block)], [("damaged", ("append",))]),
    "lock not held": ([(SimDisk, "lock", lambda *_, **__: True)], [("existing", ("rival",))]),
    "document renamed before its sync": (
        [(FileDocuments, "_put_file", put_without_sync)],
        [("existing", ("append", "snapshot"))],
    ),
    "payload not synced before its line": ([(FileDocuments, "sync_pending", nothing)], [("empty", ("blob", "flush"))]),
    "payload put after its line": ([(Writer, "_put_blobs", nothing)], [("empty", ("blob",))]),
    "safe payload replaced by an unsafe one": ([(FileDocuments, "_put_later", put_over)], [("existing", ("blob",))]),
    "payloads of a killed process forgotten": ([(FileDocuments, "_mark", nothing)], [("empty", ("blob", "killed"))]),
    "lines of a killed process forgotten": (
        [(FileLog, "_sync_all", sync_own_only)],
        [("existing", ("append", "killed"))],
    ),
    "log rewritten in place": ([(FileLog, "replace", replace_in_place)], [("damaged", ("repair",))]),
    "move not synced": ([(FileStore, "_rename", rename_only)], [("existing", ("delete",))]),
}


def violations(workloads):
    """What the campaign finds wrong in some workloads, on a disk that writes short now and then."""
    checker = Checker(stride=24)
    for base, operations in workloads:
        run, _ = run_workload(base, operations, ShortDisk)
        with repeatable():
            for mode in ("power", "kill"):
                yield from (text for text, _ in checker.check(run, mode))


class ForgetfulDisk(SimDisk):
    """A log's third sync fails, and what it was to make safe never will be: as systems do."""

    syncs = 0

    def sync(self, descriptor):
        self.syncs += 1
        if self.syncs == 3:
            self.forgotten = self._inode(descriptor)
            raise OSError(errno.EIO, "simulated")
        if self.syncs < 3 or self._inode(descriptor) != self.forgotten:
            super().sync(descriptor)  # else: reported as done, over pages that were dropped


def sync_again(log, sync=FileLog._sync_all):
    try:
        return sync(log)
    except OSError:
        return sync(log)


def flush_until_it_fails():
    """Whether a promise is broken by one who flushes three times on a disk that forgets."""
    with repeatable():
        run = Run(ForgetfulDisk(existing_image()))
        with suppress(SyncFailed):
            for _ in range(3):
                run.do("append").do("flush")
        return list(Checker().violations(run, list(run.disk.end_states())[1]))


def test_fsync_retried_is_caught():
    """Who syncs a second time after an error tells of safety that there is not; we do not."""
    assert flush_until_it_fails() == []
    with patch.object(FileLog, "_sync_all", sync_again):
        assert "1 promised events are lost" in flush_until_it_fails()
    record("seeded bugs", 1)


def append_when_fenced(path):
    """A writer whose time ran out goes on after another one took over; what the log then has."""
    first, second = SQLiteStore(path), SQLiteStore(path)
    late, heir = first.lease("sessions/a"), second.lease("sessions/a")
    epoch = late.acquire("late", 1)
    first.log("sessions/a").append(b"1\n", 0, 1, epoch)
    with patch("holdfast.storage.sqlite.tables.check_free", nothing):  # its time ran out
        epoch_of_heir = heir.acquire("heir", 60_000)
    second.log("sessions/a").append(b"2\n", 1, 1, epoch_of_heir)
    try:
        first.log("sessions/a").append(b"late\n", 1, 1, epoch)
    except Fenced:
        return b"".join(second.log("sessions/a").read())
    finally:
        found = b"".join(second.log("sessions/a").read())
        first.close()
        second.close()
    return found


def test_epoch_not_checked_is_caught(store_root):
    """Without the check of the epoch in the statement that appends, two writers mix their lines."""
    assert append_when_fenced(str(store_root / "a.db")) == b"1\n2\n"

    def restored(log, connection, epoch):
        row = connection.execute("SELECT id FROM keys WHERE key = ?", (log._key,)).fetchone()
        return row[0], log.size()

    with patch.object(SQLiteLog, "_restored", restored):
        assert append_when_fenced(str(store_root / "b.db")) == b"1\n2\nlate\n"
    record("seeded bugs", 1)


@pytest.mark.parametrize("name", BUGS)
def test_seeded_bug_is_caught(name):
    """A version with this bug breaks a promise that the campaign sees."""
    patches, workloads = BUGS[name]
    with ExitStack() as stack:
        for owner, attribute, version in patches:
            stack.enter_context(patch.object(owner, attribute, version))
        found = set(violations(workloads))
    assert found
    record("seeded bugs", 1)


def test_without_bugs_nothing_is_found():
    """The code as it is breaks nothing in all the workloads that the seeded bugs are shown on."""
    workloads = {workload for _, workloads in BUGS.values() for workload in workloads}
    assert list(violations(sorted(workloads))) == []
