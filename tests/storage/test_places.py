"""Where a file store may live, and what it refuses to follow."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from holdfast.errors import Forbidden, StoreError, Unavailable
from holdfast.storage import Disk, FileStore
from holdfast.storage import disk as disk_module

KEY = "sessions/a"


def write(store, key=KEY):
    lease = store.lease(key)
    epoch = lease.acquire("test", 0)
    log = store.log(key)
    log.append(b"line\n", 0, 1, epoch)
    log.sync()
    log.close()
    store.documents(key).put("blobs/x", b"data")
    lease.release()


def modes(root):
    """The modes that directories and files below a place have."""
    found = {"directories": {stat.S_IMODE(os.lstat(root).st_mode)}, "files": set()}
    for above, directories, files in os.walk(root):
        for name in directories:
            found["directories"].add(stat.S_IMODE(os.lstat(os.path.join(above, name)).st_mode))
        for name in files:
            found["files"].add(stat.S_IMODE(os.lstat(os.path.join(above, name)).st_mode))
    return found


class WatchfulDisk(Disk):
    """Looks at all modes after each call."""

    def __init__(self, root):
        self.root = root
        self.seen = {"directories": set(), "files": set()}

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def watched(*arguments, **options):
            result = found(*arguments, **options)
            if os.path.lexists(self.root):
                for kind, values in modes(self.root).items():
                    self.seen[kind] |= values
            return result

        return watched


@pytest.mark.req("S2-95")
@pytest.mark.req("S2-96")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
@pytest.mark.req("S2-77")
def test_modes_at_every_instant(tmp_path, umask):
    """Directories are 0700 and files 0600 after every call, whatever the umask."""
    root = tmp_path / "made" / "store"
    disk = WatchfulDisk(tmp_path / "made")
    before = os.umask(umask)
    try:
        store = FileStore(root, disk=disk)
        write(store)
        store.documents("agents/a").put("memory.json", b"{}", if_match="")
        log = store.log(KEY)
        log.cut(2, 1)
        log.replace([b"new\n"], 1)
        store.move(KEY, "trash/a")
        store.drop("trash/a")
        store.close()
    finally:
        os.umask(before)
    assert disk.seen == {"directories": {0o700}, "files": {0o600}}


@pytest.mark.req("S2-96")
def test_no_call_asks_for_more(tmp_path, monkeypatch):
    """No file is ever made with a mode that would be wider for a moment."""
    asked = []

    def watched_open(path, flags, mode=0o777, *, dir_fd=None, real=os.open):
        if flags & os.O_CREAT:
            asked.append(mode)
        return real(path, flags, mode, dir_fd=dir_fd)

    def watched_mkdir(path, mode=0o777, *, dir_fd=None, real=os.mkdir):
        asked.append(mode)
        return real(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(disk_module.os, "open", watched_open)
    monkeypatch.setattr(disk_module.os, "mkdir", watched_mkdir)
    with pytest.MonkeyPatch.context():
        write(FileStore(tmp_path / "store"))
    assert set(asked) == {0o600, 0o700}


def test_copied_files_are_closed_to_others(tmp_path):
    """A log that was copied in with a wider mode is 0600 once it is written."""
    store = FileStore(tmp_path / "store")
    write(store)
    log = tmp_path / "store" / "sessions" / "a" / "events.jsonl"
    log.chmod(0o644)
    write(store)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.fixture
def elsewhere(tmp_path):
    """A directory outside the store, with a file that must stay as it is."""
    place = tmp_path / "elsewhere"
    place.mkdir(mode=0o700)
    (place / "events.jsonl").write_bytes(b"not yours\n")
    yield place
    assert sorted(os.listdir(place)) == ["events.jsonl"]
    assert (place / "events.jsonl").read_bytes() == b"not yours\n"


ROUTES = ["store/sessions", "store/sessions/a", "store/sessions/a/blobs"]


@pytest.mark.req("S2-100")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dangling", [False, True])
def test_symlinked_directory_is_refused(tmp_path, elsewhere, route, dangling):
    """No symlink is followed below the root, whether it leads somewhere or not."""
    link = tmp_path / route
    link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    link.symlink_to(tmp_path / "nowhere" if dangling else elsewhere)
    with pytest.raises(Forbidden, match="symlink"):
        write(FileStore(tmp_path / "store"))
    assert not (tmp_path / "nowhere").exists()


def a_root(way, tmp_path):
    """A path of a store that leads through symlinks, and where it really is."""
    real = tmp_path / "disk" / "user"
    real.mkdir(parents=True, mode=0o700)
    if way == "home":  # a home that is a symlink, or that an automounter put there
        (tmp_path / "home").symlink_to(real)
        return tmp_path / "home" / "data" / "store", real / "data" / "store"
    if way == "relative":  # /tmp on macOS: private/tmp
        (tmp_path / "tmp").symlink_to("disk/user")
        return tmp_path / "tmp" / "store", real / "store"
    if way == "chain":
        (tmp_path / "a").symlink_to("b/../a2")
        (tmp_path / "b").symlink_to(tmp_path / "disk" / "user")
        (tmp_path / "disk" / "a2").symlink_to(real)
        return tmp_path / "a" / "store", real / "store"
    if way == "dangling":  # the store is made with the first session, where the link leads
        (tmp_path / "store").symlink_to(real / "later")
        return tmp_path / "store", real / "later"
    (real / "store").mkdir(mode=0o700)
    (tmp_path / "store").symlink_to(real / "store")
    return tmp_path / "store", real / "store"


@pytest.mark.parametrize("way", ["home", "relative", "chain", "dangling", "root"])
def test_a_store_below_a_symlink(tmp_path, way):
    """The way to the root may lead through symlinks: it is resolved once."""
    named, real = a_root(way, tmp_path)
    store = FileStore(named)
    store.check()
    write(store)
    assert (real / "sessions" / "a" / "events.jsonl").read_bytes() == b"line\n"
    assert modes(real) == {"directories": {0o700}, "files": {0o600}}
    assert store.path == str(real) == store.location(KEY).removesuffix("/sessions/a")
    assert store.identity == FileStore(real).identity
    (real / "trash").symlink_to(tmp_path)
    with pytest.raises(Forbidden, match="symlink"):
        store.move(KEY, "trash/a")


def test_a_root_that_changes_its_way_later(tmp_path, elsewhere):
    """A link that is put on the resolved way afterwards is refused, and the open store stays."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    store, late = FileStore(tmp_path / "link" / "store"), FileStore(tmp_path / "link" / "store")
    write(store)
    (tmp_path / "link").unlink()
    (tmp_path / "real").rename(tmp_path / "moved")
    (tmp_path / "real").symlink_to(elsewhere)
    with pytest.raises(Forbidden, match="symlink"):
        write(late)
    write(store, "sessions/b")
    assert (tmp_path / "moved" / "store" / "sessions" / "b" / "events.jsonl").exists()


def test_symlinks_in_a_circle(tmp_path):
    """Links that lead to each other are an error that says so."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(Unavailable, match="leads nowhere"):
        FileStore(tmp_path / "a" / "store")


@pytest.mark.req("S2-100")
def test_a_symlink_of_somebody_else_in_an_open_directory(tmp_path, elsewhere, monkeypatch):
    """In a directory like /tmp a link that another user made is not followed, one's own is."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "store").symlink_to(elsewhere)
    FileStore(shared / "store").check()
    real_lstat = os.lstat

    def of_another(path, **options):
        found = list(real_lstat(path, **options))
        found[4] += 1 if str(path).endswith("/shared/store") else 0
        return os.stat_result(found)

    monkeypatch.setattr(disk_module.os, "lstat", of_another)
    with pytest.raises(Forbidden, match="another user") as caught:
        FileStore(shared / "store")
    assert "only you can write" in caught.value.remedy
    shared.chmod(0o755)
    FileStore(shared / "store").check()


@pytest.mark.req("S2-100")
@pytest.mark.parametrize("name", ["events.jsonl", "lock", "blobs/x", "blobs/.tmp-x", ".documents-lock"])
def test_symlinked_file_is_refused(tmp_path, elsewhere, name):
    """A symlink in the place of a file is neither read nor written through."""
    store = FileStore(tmp_path / "store")
    link = tmp_path / "store" / "sessions" / "a" / name
    link.parent.mkdir(parents=True, mode=0o700)
    os.chmod(tmp_path / "store", 0o700)
    link.symlink_to(elsewhere / "events.jsonl")
    documents = store.documents(KEY)
    if name == "events.jsonl":
        for act in (store.exists, lambda key: store.log(key).size(), write_log(store)):
            with pytest.raises(Forbidden):
                act(KEY)
        with pytest.raises(Forbidden):
            list(store.log(KEY).read())
        assert list(store.entries()) == []
    elif name == "lock":
        with pytest.raises(Forbidden):
            store.lease(KEY).acquire("test", 0)
    elif name == "blobs/x":
        with pytest.raises(Forbidden):
            documents.get("blobs/x")
        assert documents.names() == []
        documents.put("blobs/x", b"new")  # replaces the link itself
        assert documents.get("blobs/x")[0] == b"new"
    else:
        with pytest.raises(Forbidden):
            documents.put("blobs/x", b"new", if_match="")


def write_log(store):
    return lambda key: store.log(key).append(b"line\n", 0, 1, 1)


def test_hidden_symlink_goes_with_the_key(tmp_path, elsewhere):
    """Dropping a key removes a symlink in it, not what it leads to."""
    store = FileStore(tmp_path / "store")
    write(store)
    (tmp_path / "store/sessions/a/way").symlink_to(elsewhere)
    store.drop(KEY)
    assert not store.exists(KEY)


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_root_that_others_can_write_is_refused(store_root, mode):
    """A root that a group or everyone may write is refused before anything is written."""
    store_root.chmod(mode)
    store = FileStore(store_root)
    with pytest.raises(Forbidden, match="written by others") as caught:
        write(store)
    assert "chmod go-w" in caught.value.remedy
    with pytest.raises(Forbidden):
        store.check()
    assert os.listdir(store_root) == []


def test_root_of_another_user_is_refused(store_root, monkeypatch):
    """A root that belongs to someone else is refused before anything is written."""
    if os.geteuid() == 0:
        os.chown(store_root, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    store = FileStore(store_root)
    with pytest.raises(Forbidden, match="another user"):
        write(store)
    with pytest.raises(Forbidden):
        store.check()


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "smb3", "ceph", "fuse.sshfs", "fuse.rclone"])
def test_network_file_system_is_refused(store_root, monkeypatch, kind):
    """A network file system, where locks do not hold, is refused before anything is written."""
    device = os.stat(store_root).st_dev
    row = f"1 2 {os.major(device)}:{os.minor(device)} / / rw - {kind} server:/x rw".split()
    monkeypatch.setattr(disk_module, "_mounts", lambda: iter([row]))
    with pytest.raises(Unavailable, match=kind):
        write(FileStore(store_root))
    assert os.listdir(store_root) == []


@pytest.mark.parametrize("kind", ["ext4", "fuse", "fuse.portal", "overlay", "tmpfs"])
def test_local_file_system_is_taken(store_root, monkeypatch, kind):
    """Local file systems are taken, those behind FUSE as well."""
    device = os.stat(store_root).st_dev
    row = f"1 2 {os.major(device)}:{os.minor(device)} / / rw - {kind} x rw".split()
    monkeypatch.setattr(disk_module, "_mounts", lambda: iter([["1", "2", "0:0", "-", "nfs"], row]))
    write(FileStore(store_root))
    assert FileStore(store_root).exists(KEY)


def test_file_in_the_way(tmp_path):
    """A file where a directory should be is a clear error."""
    (tmp_path / "store").write_text("a file")
    with pytest.raises(Unavailable, match="not a directory"):
        write(FileStore(tmp_path / "store"))


def test_file_beside_the_sessions(store_root):
    """Files and odd names beside the sessions are passed over in lists."""
    store = FileStore(store_root)
    write(store)
    sessions = store_root / "sessions"
    (sessions / "notes.txt").write_text("mine")
    (sessions / "not an id").mkdir()
    (sessions / "not an id" / "events.jsonl").write_text("")
    (sessions / "link").symlink_to(sessions / "a")
    assert [entry.key for entry in store.entries()] == [KEY]


def test_pipe_in_the_place_of_a_log(store_root):
    """A pipe in the place of a log makes nobody wait."""
    store = FileStore(store_root)
    write(store)
    log = store_root / "sessions" / "a" / "events.jsonl"
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(StoreError):
        list(store.log(KEY).read())


def test_root_named_like_options(tmp_path):
    """The path of a store may have spaces, percent signs and other letters in it."""
    root = tmp_path / "100% für mich #1"
    write(FileStore(root))
    assert (root / "sessions/a/events.jsonl").read_bytes() == b"line\n"
    assert FileStore(root).url.startswith("file:///")


def test_session_folder_copied_in_by_hand(store_root, tmp_path):
    """A session folder that was copied into the store is simply there."""
    store = FileStore(store_root)
    folder = store_root / "sessions" / "copied"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(b"line\n")
    assert store.exists("sessions/copied")
    write(store, "sessions/copied")
    assert (folder / "events.jsonl").read_bytes() == b"line\nline\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else to show it")
def test_way_that_may_only_be_passed(request):
    """A directory above the root that may be passed but not listed is no obstacle."""
    home = Path(tempfile.mkdtemp())  # not in pytest's own folders, which others may not even pass
    request.addfinalizer(lambda: shutil.rmtree(home))
    mine = home / "me"
    mine.mkdir()
    os.chown(mine, 12345, 12345)
    home.chmod(0o711)
    script = f"""
        import os
        os.setgid(12345); os.setuid(12345)
        from holdfast.storage import FileStore
        store = FileStore({str(mine / "deep" / "store")!r})
        log = store.log("sessions/a")
        log.append(b"line\\n", 0, 1, store.lease("sessions/a").acquire("x", 0))
        log.sync()
        print(log.size())
    """
    done = subprocess.run(
        [sys.executable, "-c", "from holdfast.storage import FileStore\n" + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "5"), done.stderr
