"""Reading a log that a person names, outside of any store."""

from __future__ import annotations

import os
import shutil

import pytest

from holdfast.errors import NotFound, Unavailable, UsageError
from holdfast.storage import FileStore, documents_beside, find_log, read_file
from holdfast.storage.disk import Disk


@pytest.fixture
def log(tmp_path):
    """A file of more than one chunk."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(os.urandom(2_500_000))
    return path


def test_every_byte_in_chunks(log):
    """The file's bytes come whole and in order, a part at a time."""
    chunks = list(read_file(find_log(log)))
    assert len(chunks) > 1
    assert b"".join(chunks) == log.read_bytes()


def test_only_what_is_there_now(log):
    """A file that grows while it is read gives what it had at the beginning."""
    chunks = read_file(find_log(log))
    first = next(chunks)
    size = log.stat().st_size
    with log.open("ab") as stream:
        stream.write(b"more")
    assert len(first) + sum(map(len, chunks)) == size


def test_a_folder_stands_for_its_log(log):
    """Both the folder and a link to it lead to the file."""
    link = log.parent / "link"
    link.symlink_to(log.parent)
    assert find_log(log.parent) == find_log(link) == find_log(log) == os.path.realpath(log)


@pytest.mark.parametrize("name", ["missing", "folder"])
def test_nothing_there(tmp_path, name):
    """A missing file and a folder without a log are not found."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotFound):
        find_log(tmp_path / name)


@pytest.mark.parametrize("path", ["", "a\0b", "/dev/null"])
def test_what_is_no_file(path):
    """Nothing, what no path can be, and a device are refused."""
    with pytest.raises(UsageError):
        find_log(path)


def test_a_link_put_in_the_way_later_is_not_followed(log, tmp_path):
    """Between finding and reading nobody can lead the reader elsewhere."""
    found = find_log(log)
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    log.unlink()
    log.symlink_to(secret)
    with pytest.raises(Exception, match="symlink"):
        list(read_file(found))


def test_no_descriptor_is_left(log, open_below):
    """Read to the end, given up, or failed: everything is closed."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system has no /proc")
    list(read_file(find_log(log)))
    half = read_file(find_log(log))
    next(half)
    assert open_below(log.parent)
    half.close()
    with pytest.raises(OSError, match="reading"):
        list(read_file(str(log.parent / "missing" / "x")))
    assert open_below(log.parent) == []


def test_a_failing_disk_gives_a_typed_error(log):
    """What the system refuses becomes an error that names the file."""

    class Forbidding(Disk):
        def open_read(self, name, parent):
            raise PermissionError(13, "no")

    with pytest.raises(Unavailable, match="events"):
        list(read_file(str(log), Forbidding()))


def test_payloads_beside_a_log(log):
    """The documents in the log's folder can be read, and there is none of another name."""
    (log.parent / "blobs").mkdir(mode=0o700)
    (log.parent / "blobs" / "x").write_bytes(b"payload")
    log.parent.chmod(0o700)
    documents = documents_beside(str(log))
    assert documents.get("blobs/x")[0] == b"payload"
    assert documents.get("blobs/y") is None


@pytest.fixture
def forms(tmp_path):
    """The folders of a branch without and with lines of its own, and of an archived session."""
    store = FileStore(tmp_path / "store")
    for key, line in (("sessions/a", b"1\n2\n"), ("sessions/b", b""), ("sessions/c", b"3\n")):
        if key != "sessions/a":
            store.branch("sessions/a", key, 4)
        if line:
            lease, log = store.lease(key), store.log(key)
            log.append(line, 0, 1, lease.acquire("me", 0))
            log.close()
            lease.release()
    store.archive("sessions/a")
    store.close()
    return tmp_path / "store" / "sessions"


@pytest.mark.parametrize(("name", "whole"), [("a", b"1\n2\n"), ("b", b"1\n2\n"), ("c", b"1\n2\n3\n")])
def test_other_forms_of_a_log(forms, name, whole):
    """A copied folder is read whatever form its log has."""
    shutil.copytree(forms / name, forms / "copy")
    assert b"".join(read_file(find_log(forms / "copy"))) == whole


def test_any_archive_by_its_name(forms):
    """An archive that a person named is unpacked under another name too."""
    other = shutil.copy(forms / "a" / "events.jsonl.zst", forms / "old.jsonl.zst")
    assert b"".join(read_file(find_log(other))) == b"1\n2\n"


def test_a_base_that_is_none(tmp_path):
    """A file that happens to be called base.json is read as it is, also beside a log."""
    (tmp_path / "base.json").write_bytes(b"line\n")
    (tmp_path / "events.jsonl").write_bytes(b"log\n")
    assert b"".join(read_file(find_log(tmp_path / "base.json"))) == b"line\n"
