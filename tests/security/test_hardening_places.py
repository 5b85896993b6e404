"""Never a byte outside of the store, never a wider mode: ids, names, links, owners, descriptors."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import Forbidden, HoldfastError, InvalidId
from holdfast.model import check_id
from holdfast.storage import FileStore
from holdfast.storage.base import check_document_name, check_key

_PIECES = [
    *("..", ".", "/", "\\", "//", "~", "$HOME", "%2e%2e", "%2f", "\0", "\n", "\r", "\t", " ", "-"),
    *("con", "NUL", "aux.txt", "com1", "C:", "C:\\", "a", "A", "0", "_", "a.", ".a", "a b", "a/b"),
    *("é", "日本", "\u202e", "\u2024\u2024", "\uff0f", "\u2215", "\ud800", "😀", "\ufeff", "\x7f"),
    *("sessions", "trash", "../..", "/etc/passwd", "file:", "a:b", "*", "?", "<", ">", "|", '"', "'"),
    *("lock", "events.jsonl", "own.jsonl", "x" * 129, "x" * 4096, ";", "`id`", "$(id)", "&&", "#"),
]


def _tricks(count: int) -> list[str]:
    rng = random.Random("tricks")
    pairs = ["".join(pair) for pair in itertools.product(_PIECES, repeat=2)]
    found = dict.fromkeys([*_PIECES, *pairs])
    while len(found) < count:
        found["".join(rng.choices(_PIECES, k=rng.randint(3, 6)))] = None
    return list(found)[:count]


def _all_below(place: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file and directory with its mode, size and bytes; links are not followed."""
    found = {}
    for above, directories, files in os.walk(place):
        for name in [*directories, *files]:
            path = os.path.join(above, name)
            status = os.lstat(path)
            data = Path(path).read_bytes() if stat.S_ISREG(status.st_mode) else b""
            found[path] = (status.st_mode, status.st_size, data)
    return found


@pytest.fixture
def box(tmp_path):
    """A store, and beside it what must not change."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("events.jsonl", "lock", "f"):
        (outside / name).write_text("not yours\n")
    (outside / "folder").mkdir()
    return tmp_path


@pytest.mark.unmeasured
@pytest.mark.req("S2-99", "S2-100", "S0-69")
def test_five_thousand_names(box):
    """Whatever is given as an id, an agent, a space or a name of a document stays in the store."""
    tricks = _tricks(5_000)
    assert len(set(tricks)) == 5_000
    before = _all_below(box / "outside")
    store = FileStore(box / "store")
    taken = []
    for trick in tricks:
        for check in (check_id, check_key, check_document_name, lambda t: check_key(f"sessions/{t}")):
            try:
                check(trick)
            except InvalidId:
                continue
            assert not {"..", "."} & set(trick.split("/"))
            assert "\\" not in trick
            assert "\0" not in trick
            assert not trick.startswith("/")
            taken.append(trick)
        with pytest.raises(HoldfastError):
            store.documents("sessions/a").put(f"../{trick}", b"x")
    with holdfast.open(box / "store") as hf:
        for trick in dict.fromkeys(taken[::11]):
            for act in (
                lambda t: hf.session(t, agent_id="helper").close(),
                lambda t: hf.session("a", agent_id=t).close(),
                lambda t: hf.session(t).user("x"),
                lambda t: hf.fork("a", new_id=t),
                hf.space,
                hf.delete,
            ):
                try:
                    act(trick)
                except HoldfastError:
                    continue
    store.close()
    assert _all_below(box / "outside") == before
    assert set(os.listdir(box)) <= {"outside", "store"}
    assert_private(box / "store")


def assert_private(root: Path) -> None:
    """Directories 0700, files 0600, nothing else."""
    for path, (mode, _, _) in _all_below(root).items():
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
        assert stat.S_IMODE(mode) == wanted, path


def _fill(root: Path) -> None:
    with holdfast.open(root) as hf:
        with hf.session("a", agent_id="helper") as session:
            session.user("hello")
            session.memory.set("k", "v", scope="persistent")
            session.tool_result("c", "x" * 300_000)
            session.snapshot()
        hf.list()


def _use(root: Path) -> None:
    """Everything that writes; what is refused is refused with an error of ours."""
    with holdfast.open(root) as hf:

        def write():
            with hf.session("a", agent_id="helper") as session:
                session.user("more")
                session.tool_result("c", "y" * 300_000)
                session.memory.set("k", "w", scope="persistent")
                session.snapshot()

        for act in (
            write,
            hf.list,
            lambda: hf.fork("a"),
            lambda: hf.archive("a"),
            lambda: hf.redact("a", find=["hello"]),
            lambda: hf.repair("a"),
            lambda: hf.delete("a"),
            hf.reindex,
        ):
            try:
                act()
            except HoldfastError:
                continue


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store to copy from."""
    root = tmp_path_factory.mktemp("filled") / "store"
    _fill(root)
    return root


_OTHERS = ("link", "second name", "link to nothing", "pipe")
_TREE = (
    *("catalog.db", "touched", "agents", "agents/helper", "agents/helper/memory.json"),
    *("agents/helper/.documents-lock", "sessions", "sessions/a", "sessions/a/lock"),
    *("sessions/a/events.jsonl", "sessions/a/snapshots", "sessions/a/blobs", "trash", "shared"),
    *("agents/helper/.tmp-memory.json", "sessions/a/quarantine", "sessions/a/snapshots/.tmp-3.json"),
)


@pytest.mark.req("C18")
@pytest.mark.parametrize("name", _TREE)
def test_something_else_in_the_place_of_a_file(box, filled, name):
    """A link, a second name of a foreign file or a pipe anywhere in a store leads nowhere."""
    before = _all_below(box / "outside")
    for kind in _OTHERS:
        shutil.rmtree(box / "store", ignore_errors=True)
        shutil.copytree(filled, box / "store")
        place = box / "store" / name
        folder = place.is_dir()
        if folder:
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        if kind == "link":
            place.symlink_to(box / "outside" / ("folder" if folder else "events.jsonl"))
        elif kind == "link to nothing":
            place.symlink_to(box / "outside" / "new")
        elif kind == "pipe":
            os.mkfifo(place)
        else:
            os.link(box / "outside" / "f", place)
        with contextlib.suppress(HoldfastError):
            _use(box / "store")
        assert _all_below(box / "outside") == before, kind


@pytest.mark.unmeasured
def test_two_hundred_races(box):
    """While someone swaps directories and files for links, nothing lands on the other side."""
    _fill(box / "store")
    before = _all_below(box / "outside")
    done = threading.Event()
    swaps = 0
    places = [box / "store" / name for name in ("sessions/a", "sessions/a/blobs", "sessions/b")]
    files = [box / "store" / "sessions/a" / name for name in ("events.jsonl", "lock")]

    def swap():
        nonlocal swaps
        rng = random.Random(7)
        while not done.is_set():
            place = rng.choice([*places, *files])
            aside = place.with_name(f"{place.name}.aside")
            target = box / "outside" / ("folder" if place in places else place.name)
            try:
                os.rename(place, aside)
                os.symlink(target, place)
                os.unlink(place)
                os.rename(aside, place)
            except OSError:
                for rest in (place, aside):
                    if rest.is_symlink():
                        rest.unlink()
                if aside.exists() and not place.exists():
                    os.rename(aside, place)
            swaps += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        with holdfast.open(box / "store") as hf:
            for number in itertools.takewhile(lambda n: n < 200 or swaps <= 200, range(20_000)):
                for name in ("a", "b"):
                    try:
                        with hf.session(name) as session:
                            session.user(f"round {number}")
                            session.tool_result("c", "z" * 300_000 if number % 20 == 0 else "z")
                    except HoldfastError:
                        continue
    finally:
        done.set()
        swapper.join()
    assert swaps > 200
    after = _all_below(box / "outside")
    assert after == before


_WORK = textwrap.dedent(
    """
    import os, sys
    os.umask(int(sys.argv[2], 8))
    import holdfast
    with holdfast.open(sys.argv[1]) as hf:
        with hf.session("a", agent_id="helper") as session:
            session.user("hello")
            session.memory.set("k", "v", scope="persistent")
            session.tool_result("c", "x" * 300_000)
            session.snapshot()
        hf.list()
        hf.fork("a", new_id="b")
        hf.archive("b")
        hf.redact("a", find=["hello"])
        hf.delete("b")
    """
)


@pytest.mark.req("S2-95", "S2-96", "S4-56")
@pytest.mark.parametrize("umask", ["000", "077", "027", "777"])
def test_modes_whatever_the_umask(tmp_path, umask):
    """Directories are 0700 and files 0600 under every umask."""
    subprocess.run([sys.executable, "-c", _WORK, str(tmp_path / "store"), umask], check=True)
    assert_private(tmp_path / "store")
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_no_call_asks_for_a_wider_mode(tmp_path):
    """Seen from the kernel: nothing is ever made wider, not even for a moment."""
    trace = tmp_path / "trace"
    calls = "trace=openat,open,creat,mkdir,mkdirat,chmod,fchmod,fchmodat,mknod,mknodat"
    command = ["strace", "-f", "-qq", "-e", calls, "-o", str(trace), sys.executable, "-c", _WORK]
    done = subprocess.run([*command, str(tmp_path / "store"), "000"], check=False, capture_output=True)
    if done.returncode:
        pytest.skip(f"strace cannot trace here: {done.stderr[-200:]!r}")
    made = 0
    for line in trace.read_text().splitlines():
        if " = -1 " in line or str(tmp_path / "pycache") in line:
            continue
        if "O_CREAT" in line:
            if "__pycache__" in line:
                continue
            assert line.rpartition(", ")[2].startswith(("0600", "0000")), line
            made += 1
        elif "mkdir" in line:
            assert "0700" in line, line
            made += 1
        elif "chmod" in line:
            assert any(mode in line for mode in ("0600", "0700")), line
    assert made > 10


def test_places_that_others_can_change(tmp_path):
    """A store that is anyone's to write, or that is someone else's, is refused."""
    _fill(tmp_path / "store")
    (tmp_path / "store").chmod(0o777)
    with pytest.raises(Forbidden):
        _fill(tmp_path / "store")
    (tmp_path / "store").chmod(0o770)
    with pytest.raises(Forbidden):
        _fill(tmp_path / "store")
    (tmp_path / "store").chmod(0o700)
    if os.getuid() == 0:
        os.chown(tmp_path / "store", 12345, 12345)
        with pytest.raises(Forbidden):
            _fill(tmp_path / "store")


def test_children_get_no_descriptor_of_the_store(tmp_path):
    """A program that a tool starts holds nothing of the store open."""
    with holdfast.open(tmp_path / "store") as hf, hf.session("a") as session:
        session.user("hello")
        hf.list()
        script = "import os; [print(os.readlink(one.path)) for one in os.scandir('/proc/self/fd')]"
        for options in ({"close_fds": False}, {"close_fds": True}):
            told = subprocess.run(
                [sys.executable, "-c", script], check=True, capture_output=True, text=True, **options
            ).stdout
            assert str(tmp_path / "store") not in told


@pytest.mark.req("S2-97")
def test_nothing_that_was_said_is_in_a_name_of_a_file(tmp_path):
    """Whatever people and tools say, and however it is labelled, no path below the store has it."""
    secret = "hunter2-correct-horse"
    with holdfast.open(tmp_path / "store") as hf:
        with hf.session(agent_id="helper", title=secret) as s:
            s.user(secret)
            s.assistant("x" * 300_000 + secret)  # big enough to be kept in a file of its own
            s.tag(secret)
            s.link("other", secret)
            s.memory.set(secret, secret, scope="persistent")
            s.variables[secret] = secret
            with s.tool(secret, {secret: secret}, id=secret) as call:
                call.result = secret
            s.append("plugin_state", {"name": "p", "state": {secret: secret}})
            s.snapshot()
            id = s.id
        made = hf.fork(id)
        hf.export(id, "markdown", to=tmp_path / "store" / "trip.md")
        hf.archive(id)
        assert hf.search(secret)
        hf.delete(made)
    names = [str(path.relative_to(tmp_path)) for path in (tmp_path / "store").rglob("*")]
    assert len(names) > 10
    assert [name for name in names if secret in name or "hunter2" in name] == []
