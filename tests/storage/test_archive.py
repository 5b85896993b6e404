"""The archive of a log: what it holds, what any zstd tool makes of it, and what damage costs."""

from __future__ import annotations

import shutil
import struct
import subprocess

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Holdfast
from holdfast.errors import Damaged, HoldfastError, Locked, TooLarge
from holdfast.storage import FileStore
from holdfast.storage.files import archive as _archive
from holdfast.storage.files import forms
from holdfast.storage.files.archive import FRAME_BYTES, Archive, pack
from holdfast.testing import FaultyDisk, SimDisk

KEY = "sessions/a"
LOG = b"".join(b'{"number":%d,"text":"words of a conversation"}\n' % n for n in range(70_000))
PACKED = b"".join(pack([LOG], len(LOG), 123))
SMALL = b"".join(pack([b"1\n2\n"], 4, 5))
# The first frame, which tools skip: magic, length, name, size, time.
HEAD = struct.Struct("<II8sQQ")


def opened(data):
    return Archive(lambda count, offset: data[offset : offset + count], len(data))


def read(data, start=0):
    return b"".join(opened(data).read(start))


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


def in_store(tmp_path, data):
    """A store with an archive that someone copied in."""
    folder = tmp_path / "store" / "sessions" / "a"
    folder.mkdir(parents=True, mode=0o700)
    (tmp_path / "store").chmod(0o700)
    (folder / "events.jsonl.zst").write_bytes(data)
    return FileStore(tmp_path / "store")


def test_frames_stand_alone():
    """Frames of 1 MiB, each of which says its size and is unpacked by itself."""
    archive = opened(PACKED)
    assert (archive.size, archive.modified, archive.has_table) == (len(LOG), 123, True)
    assert [frame.size for frame in archive.frames[:-1]] == [FRAME_BYTES] * (len(LOG) // FRAME_BYTES)
    for frame in archive.frames:
        alone = PACKED[frame.offset : frame.offset + frame.packed]
        assert zstd.get_frame_info(alone).decompressed_size == frame.size
        assert zstd.decompress(alone) == LOG[frame.start : frame.start + frame.size]


def test_any_tool_unpacks_it(tmp_path):
    """The zstd of Python and that of the command line give the log."""
    assert zstd.decompress(PACKED) == LOG
    if shutil.which("zstd") is None:
        pytest.skip("there is no zstd command here")
    (tmp_path / "log.zst").write_bytes(PACKED)
    done = subprocess.run(["zstd", "-dc", tmp_path / "log.zst"], capture_output=True, check=True, timeout=120)
    assert done.stdout == LOG


def test_reading_from_an_offset_unpacks_no_more():
    """To read the end of a log only its last frame is looked at."""
    touched = []

    def read_at(count, offset):
        touched.append(offset)
        return PACKED[offset : offset + count]

    archive = Archive(read_at, len(PACKED))
    touched.clear()
    assert b"".join(archive.read(len(LOG) - 5)) == LOG[-5:]
    assert min(touched) >= archive.frames[-1].offset


@given(st.lists(st.binary(max_size=50), max_size=10), st.integers(0, 600))
def test_every_log_comes_back(chunks, start):
    """Whatever the bytes are, empty ones too, they come back from any offset."""
    whole = b"".join(chunks)
    data = b"".join(pack(chunks, len(whole), 0))
    assert read(data, start) == whole[start:]
    assert opened(data).has_table


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_frame_costs_itself(number):
    """The bytes of a frame that cannot be unpacked are zeros; all others are right."""
    frame = opened(PACKED).frames[number]
    archive = opened(flipped(PACKED, frame.offset + frame.packed // 2))
    found = b"".join(archive.read())
    assert archive.damaged
    assert len(found) == len(LOG)
    end = frame.start + frame.size
    assert found[: frame.start] == LOG[: frame.start]
    assert found[frame.start : end] == bytes(frame.size)
    assert found[end:] == LOG[end:]


def test_without_its_table():
    """An archive whose table is damaged or gone is walked through, and is whole."""
    for data in (flipped(PACKED, len(PACKED) - 1), PACKED[:-40], flipped(PACKED, len(PACKED) - 12)):
        archive = opened(data)
        assert not archive.has_table
        assert archive.damaged
        assert b"".join(archive.read()) == LOG


def test_with_a_damaged_head():
    """What the table and the frames say together counts more than what the first frame says."""
    archive = opened(flipped(PACKED, HEAD.size - 9))
    assert archive.has_table
    assert b"".join(archive.read()) == LOG


def test_without_its_table_and_with_a_damaged_frame():
    """Even then everything else is in its place."""
    frame = opened(PACKED).frames[1]
    found = read(flipped(PACKED, frame.offset + 999)[:-10])
    assert found == LOG[: frame.start] + bytes(frame.size) + LOG[frame.start + frame.size :]


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.9])
def test_cut_short(part):
    """What is missing at the end reads as zeros, as long as the log was."""
    data = PACKED[: HEAD.size + int(len(PACKED) * part)]
    found = read(data)
    assert len(found) == len(LOG)
    kept = len(found.rstrip(b"\0"))
    assert found[:kept] == LOG[:kept]
    assert kept >= (int(len(LOG) * part) // FRAME_BYTES - 1) * FRAME_BYTES


def test_archives_of_other_tools():
    """One long frame, with and without its size, and several without a table are read."""
    stream = zstd.ZstdCompressor()
    unsized = stream.compress(LOG) + stream.flush()
    halves = zstd.compress(LOG[:1000]) + zstd.compress(LOG[1000:])
    big = LOG * 3  # longer than what is believed only as a whole
    for data, whole in ((zstd.compress(LOG), LOG), (unsized, LOG), (halves, LOG), (zstd.compress(big), big)):
        assert read(data) == whole
        assert read(data, 1234) == whole[1234:]
        assert opened(data).modified is None


def test_a_long_frame_of_another_tool_that_breaks():
    """Of a long frame that breaks in the middle the rest is zeros."""
    big = LOG * 3
    packed = zstd.compress(big, options={zstd.CompressionParameter.checksum_flag: 1})
    head = _archive._SKIPPABLE.pack(_archive._SKIPPABLE_MAGIC, 0)
    rows = struct.pack("<IIII", len(head), 0, len(packed), len(big))
    table = struct.pack("<II", _archive._TABLE_MAGIC, len(rows) + 9) + rows
    table += struct.pack("<IBI", 2, 0, _archive._TABLE_END_MAGIC)
    assert read(head + packed + table) == big
    at = len(head) + len(packed) * 2 // 3
    found = read((head + packed)[:at] + bytes(len(packed) + len(head) - at) + table)
    assert len(found) == len(big)
    assert found[: len(big) // 2] == big[: len(big) // 2]
    assert found.endswith(bytes(1000))


@given(st.data())
def test_nothing_but_a_bound_comes_of_rubbish(data):
    """Whatever happens to the bytes: as many as said come out, or TooLarge."""
    base = data.draw(st.sampled_from([SMALL, PACKED[:3000], PACKED[-3000:], b""]))
    rubbish = bytearray(base)
    for _ in range(data.draw(st.integers(0, 6))):
        if rubbish:
            at = data.draw(st.integers(0, len(rubbish) - 1))
            rubbish[at] = data.draw(st.integers(0, 255))
    rubbish = bytes(rubbish) + data.draw(st.binary(max_size=20))
    archive = opened(rubbish)
    try:
        assert sum(map(len, archive.read())) == archive.size
    except TooLarge:
        assert archive.size > _archive.ARCHIVE_BYTES_MAX


def bombs():
    """Small files that claim to be, or are, far too large."""
    zeros = zstd.compress(bytes(64 << 20))
    table = struct.pack("<II", _archive._TABLE_MAGIC, 17) + struct.pack("<II", 100, 0xFFFFFFFF)
    end = struct.pack("<IBI", 1, 0, _archive._TABLE_END_MAGIC)
    return {
        "many frames": zeros * 20,
        "by its table": bytes(100) + table + end,
        "by its head": HEAD.pack(0x184D2A50, 24, b"holdfast", 1 << 60, 0),
    }


@pytest.mark.req("S4-60")
@pytest.mark.parametrize("name", bombs())
def test_bombs(tmp_path, name):
    """A copied-in archive that would fill the memory or the disk is refused, and still listed."""
    data = bombs()[name]
    with pytest.raises(TooLarge):
        read(data)
    store = in_store(tmp_path, data)
    assert [entry.key for entry in store.entries()] == [KEY]
    for call in (
        store.log(KEY).size,
        lambda: b"".join(store.log(KEY).read()),
        lambda: store.unarchive(KEY),
        lambda: store.branch(KEY, "sessions/b", 1),
        lambda: store.log(KEY).append(b"1\n", 0, 1, 1),
    ):
        with pytest.raises(TooLarge):
            call()
    assert (tmp_path / "store/sessions/a/events.jsonl.zst").read_bytes() == data
    assert sorted(path.name for path in (tmp_path / "store/sessions/a").iterdir()) in (
        ["events.jsonl.zst"],
        ["events.jsonl.zst", "lock"],
    )


def test_too_long_to_archive(tmp_path, monkeypatch):
    """A log that could not be unpacked again is not packed."""
    monkeypatch.setattr(_archive, "ARCHIVE_BYTES_MAX", 3)
    store = in_store(tmp_path, SMALL)
    with pytest.raises(TooLarge):
        store.unarchive(KEY)
    folder = tmp_path / "store/sessions/a"
    (folder / "events.jsonl").write_bytes(b"1\n2\n")
    with pytest.raises(TooLarge):
        store.archive(KEY)
    assert not store.is_archived(KEY)


def test_a_damaged_archive_is_kept_when_it_is_left(tmp_path):
    """Taken out of the archive, what is damaged is zeros, and the archive goes to quarantine."""
    frame = opened(PACKED).frames[1]
    data = flipped(PACKED, frame.offset + 99)
    store = in_store(tmp_path, data)
    store.unarchive(KEY)
    found = b"".join(store.log(KEY).read())
    assert found == LOG[: frame.start] + bytes(frame.size) + LOG[frame.start + frame.size :]
    [name] = store.documents(KEY).names("quarantine/")
    assert store.documents(KEY).get(name)[0] == data
    assert not (tmp_path / "store/sessions/a/events.jsonl.zst").exists()


def test_an_archive_that_reads_back_wrong_changes_nothing(monkeypatch):
    """If what was written does not read back the same, the log stays as it was."""
    disk = SimDisk()
    store = FileStore("/store", disk=disk)
    log = store.log(KEY)
    log.append(LOG[:500], 0, 1, 1)
    log.close()
    cut = _archive.rechunked
    monkeypatch.setattr(_archive, "rechunked", lambda *given: (piece.upper() for piece in cut(*given)))
    with pytest.raises(HoldfastError, match="read back"):
        store.archive(KEY)
    assert not store.is_archived(KEY)
    assert b"".join(store.log(KEY).read()) == LOG[:500]
    assert not any("zst" in path for path in next(iter(disk.end_states())).paths)


def test_left_over_forms_go_with_the_next_writer(tmp_path):
    """A crash that left an archive beside the log: the log is what counts, the archive goes."""
    store = in_store(tmp_path, SMALL)
    folder = tmp_path / "store/sessions/a"
    (folder / "events.jsonl").write_bytes(b"1\n2\n3\n")
    (folder / "base.json").write_bytes(b'{"bytes":[2]}')
    (folder / "base.jsonl").write_bytes(b"1\n")
    assert not store.is_archived(KEY)
    log = store.log(KEY)
    log.append(b"4\n", 3, 1, 1)
    log.close()
    assert b"".join(log.read()) == b"1\n2\n3\n4\n"
    assert [path.name for path in folder.iterdir()] == ["events.jsonl"]


def test_left_over_forms_that_cannot_go():
    """If they cannot be removed the writer goes on all the same."""
    disk = SimDisk()
    store = FileStore("/store", disk=disk)
    log = store.log(KEY)
    log.append(b"1\n", 0, 1, 1)
    log.close()
    with store._tree.opened(("sessions", "a")) as directory:
        forms.write_file(disk, "events.jsonl.zst", directory, [SMALL])
    again = FileStore("/store", disk=FaultyDisk(disk, call="unlink", nth=1)).log(KEY)
    again.append(b"2\n", 1, 1, 1)
    assert b"".join(again.read()) == b"1\n2\n"


def test_sessions_read_through_the_archive(tmp_path):
    """Events, state, snapshots, verify, recover and following work on an archived session."""
    with Holdfast(tmp_path / "store") as hf:
        with hf.session("a") as session:
            session.user("the first words")
            session.snapshot()
            session.assistant("the second")
        before = [bytes(event.raw) for event in hf.events("a")]
        state, messages = hf.state("a"), hf.recover("a").messages
        follower = hf.follow("a")
        assert len(follower.poll()) == len(before)
        hf.store.archive(KEY)
        assert [bytes(event.raw) for event in hf.events("a")] == before
        assert [bytes(event.raw) for event in hf.events("a", reverse=True)] == before[::-1]
        assert (hf.state("a"), hf.recover("a").messages) == (state, messages)
        assert hf.verify("a").ok
        assert follower.poll() == []
        with hf.session("a") as session:
            session.user("it goes on")
            with pytest.raises(Locked):
                hf.store.archive(KEY)
        assert not hf.store.is_archived(KEY)
        assert [event.type for event in follower.poll()] == ["opened", "user", "closed"]


def test_verify_names_a_damaged_frame(tmp_path):
    """A frame that is damaged is a gap; every event outside of it is served."""
    with Holdfast(tmp_path / "store", limits=None) as hf:
        with hf.session("a") as session:
            for number in range(40):
                session.user(f"{number} " + "words " * 20_000)
        count = len(list(hf.events("a")))
        hf.store.archive(KEY)
        path = tmp_path / "store/sessions/a/events.jsonl.zst"
        data = path.read_bytes()
        frame = opened(data).frames[1]
        path.write_bytes(flipped(data, frame.offset + frame.packed // 2))
        report = hf.verify("a")
        assert not report.ok
        [gap] = report.gaps
        assert frame.start - 130_000 < gap.offset < frame.start + frame.size
        assert count - 14 < report.events < count


def test_a_damaged_end_is_not_gone_on_from(tmp_path):
    """An archive without its end: verify says so, no writer goes on unasked, a person can."""
    with Holdfast(tmp_path / "store") as hf:
        with hf.session("a") as session:
            for number in range(10):
                session.user(f"words {number}")
        before = len(list(hf.events("a")))
        hf.store.archive(KEY)
        path = tmp_path / "store/sessions/a/events.jsonl.zst"
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        report = hf.verify("a")
        assert not report.ok
        assert "The archive is damaged. What is whole of the log is read." in report.explain()
        with pytest.raises(Damaged, match="archive of sessions/a is damaged"):
            store_append(hf.store)
        assert path.read_bytes() == data[: len(data) // 2]
        hf.store.unarchive(KEY)
        # The new file may have the number of the one that was archived, and is shorter.
        assert "settled" not in (path.parent / "lock").read_text()
        [name] = hf.store.documents(KEY).names("quarantine/")
        assert hf.store.documents(KEY).get(name)[0] == data[: len(data) // 2]
        with hf.session("a") as session:
            session.user("on")
        assert hf.verify("a").ok
        assert len(list(hf.events("a"))) < before


def store_append(store):
    log = store.log(KEY)
    log.append(b"line\n", 0, 1, 1)


def test_a_branch_without_its_beginning_is_damaged(tmp_path):
    """Bytes that a branch should have inherited and that are gone are named."""
    store = FileStore(tmp_path / "store")
    log = store.log(KEY)
    log.append(b"1\n2\n", 0, 1, 1)
    log.close()
    store.branch(KEY, "sessions/b", 4)
    assert [store.log(key).damage() for key in (KEY, "sessions/b", "sessions/c")] == ["", "", ""]
    (tmp_path / "store/sessions/b/base.jsonl").unlink()
    assert store.log("sessions/b").damage().startswith("4 bytes are missing")


def test_replacing_an_archived_log_is_another_generation_whatever_inodes_are_free(tmp_path):
    """The mark of a generation is an inode, and the archive's must not be given out again."""
    store = FileStore(tmp_path / "store")
    lease, log = store.lease("sessions/a"), store.log("sessions/a")
    for number in range(40):
        epoch = lease.acquire("me", 0)
        log.replace([b"%d\n" % number], epoch)
        log.close()
        lease.release()
        store.archive("sessions/a")
        before = log.generation()
        epoch = lease.acquire("me", 0)
        log.replace([b"other %d\n" % number], epoch)
        assert log.generation() != before
        log.close()
        lease.release()
    store.close()


def test_replacing_a_branch_is_another_generation_whatever_inodes_are_free(tmp_path):
    """The same for the small file by which a branch is known."""
    store = FileStore(tmp_path / "store")
    lease = store.lease("sessions/a")
    log = store.log("sessions/a")
    log.append(b"1\n", 0, 1, lease.acquire("me", 0))
    log.close()
    lease.release()
    for number in range(40):
        key = f"sessions/b{number}"
        store.branch("sessions/a", key, 2)
        other, lease = store.log(key), store.lease(key)
        before = other.generation()
        other.replace([], lease.acquire("me", 0))
        assert other.generation() != before
        lease.release()
    store.close()
