"""Real servers for the stores that need one: started by the tests, and ended by them."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from glob import glob
from pathlib import Path
from random import SystemRandom
from uuid import uuid4

import pytest

_PORTS = range(15_000, 32_000)
# Each worker of a run has ports of its own, in an order that another run of the tests does not share.
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_OWN = _PORTS[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) :: _WORKERS]
_UNUSED = SystemRandom().sample(_OWN, len(_OWN))
START_S = 200  # a busy machine takes its time; a test that takes 300 ends its worker


class PostgresServer:
    """A PostgreSQL server of its own, on loopback, in a directory that goes with it."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.settings: dict[str, str] = {}
        # initdb refuses root: then the server runs as the user that owns nothing.
        self.account = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self.account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    @property
    def url(self) -> str:
        return f"postgresql://holdfast@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        options = ["--auth=trust", "--username=holdfast", "--encoding=UTF8", "--locale=C"]
        options += ["--no-sync"]
        self._run("initdb", "--pgdata", str(self.data), *options)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 120,
            # The machine goes on when a server is killed, and nothing written is lost with it. A
            # start after that would sync each of many thousand files, which takes minutes where
            # the disk is busy.
            "fsync": "off",
            **self.settings,
        }
        arguments = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.data, *arguments],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self.account,
            )
        self._wait()

    def make_standby(self, primary: PostgresServer) -> None:
        """Begin as a copy of a server that runs, and follow it once started."""
        line = f"host=127.0.0.1 port={primary.port} user=holdfast application_name=standby"
        options = ["--wal-method=stream", "--checkpoint=fast", "--write-recovery-conf", "--no-sync"]
        self._run("pg_basebackup", "--dbname", line, "--pgdata", str(self.data), *options)

    def promote(self) -> None:
        """Make a standby the primary, and wait until it takes writes."""
        self._run("pg_ctl", "promote", "--pgdata", str(self.data), "--wait")

    def ask(self, query: str) -> str:
        """What ``psql`` answers."""
        command = [self._binaries / "psql", "-XAtq", "--dbname", self.url, "--command", query]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    def kill(self) -> None:
        """As a power cut would: the whole server at once, with nothing put in order."""
        assert self.process is not None
        # Each part of the server is a group of its own, so that killing one leaves the others:
        # they would write on, and be in the way of the next start.
        parts = children_of(self.process.pid)
        for pid in (self.process.pid, *parts):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        until = time.monotonic() + START_S
        while any(map(is_alive, parts)):
            assert time.monotonic() < until, "parts of the server live on"
            time.sleep(0.01)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            if self.process.poll() is None:
                self.kill()

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / name, *arguments], capture_output=True, cwd=self.folder, check=False, **self.account
        )
        assert done.returncode == 0, done.stderr.decode()

    def _wait(self) -> None:
        until = time.monotonic() + START_S
        while True:
            done = subprocess.run(
                [self._binaries / "pg_isready", "-h", "127.0.0.1", "-p", str(self.port)],
                capture_output=True,
                check=False,
            )
            if done.returncode == 0:
                return
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started, where the system tells."""
    place = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in place.read_text().split()] if place.exists() else []


def is_alive(pid: int) -> bool:
    """Whether a process goes on; one that nobody has buried yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def free_port() -> int:
    """Return a port that nobody listens on, below those that systems give to connections by themselves.

    One of those could be taken by anyone's connection before the server has it, or while a test has
    the server stopped. No port is given twice: the first may still wait for its server to start.
    """
    while _UNUSED:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = _UNUSED.pop()
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def postgres_binaries() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += [Path(place) for place in sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    return next((one for one in places if (one / "postgres").exists()), None)


@pytest.fixture(scope="session")
def postgres_server():
    """One server for all tests of a process; skipped, with the reason, where there is none."""
    with new_server() as server:
        server.make()
        server.start()
        yield server


@pytest.fixture(scope="session", name="new_server")
def new_server_fixture():
    """What gives further servers to those who need more than one, or one to break."""
    return new_server


@contextlib.contextmanager
def new_server():
    """A server that is not made yet; it is stopped in the end."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: no initdb here")
    with tempfile.TemporaryDirectory(prefix="holdfast-postgres-") as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(binaries, Path(folder))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def postgres_url(postgres_server):
    """A schema that nobody used before."""
    return f"{postgres_server.url}?schema=t{uuid4().hex}"


@pytest.fixture(scope="session")
def pooler(postgres_server):
    """The port of PgBouncer in transaction mode before the server; skipped, with the reason, where there is none."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed (Debian package pgbouncer)")
    folder, port = postgres_server.folder, free_port()
    # Two connections of the server for all: who relies on having the same one again does not get far.
    options = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": folder / "pooler-users",
        "admin_users": "holdfast",
        "pool_mode": "transaction",
        "default_pool_size": 2,
        "max_client_conn": 500,
        "server_round_robin": 1,
    }
    lines = ["[databases]", f"* = host=127.0.0.1 port={postgres_server.port}", "[pgbouncer]"]
    (folder / "pooler-users").write_text('"holdfast" ""\n')
    (folder / "pooler.ini").write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in options.items())]))
    with (folder / "pooler-log").open("wb") as log:
        process = subprocess.Popen(
            [program, folder / "pooler.ini"], stdout=log, stderr=log, cwd=folder, **postgres_server.account
        )
    try:
        until = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, (folder / "pooler-log").read_text()
            assert time.monotonic() < until, "the pooler does not answer"
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def pooled_url(pooler):
    """A schema that nobody used before, by way of the pooler."""
    return f"postgresql://holdfast@127.0.0.1:{pooler}/postgres?schema=t{uuid4().hex}"


class BucketServer:
    """A server that speaks S3, with one bucket that is there."""

    def __init__(self, command: list[str], port: int, folder: Path) -> None:
        self.port = port
        self._command = command
        self._folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )

    def start(self, *, seconds: float = START_S) -> None:
        self.launch()
        assert self.process is not None
        until = time.monotonic() + seconds
        while not self._make_bucket():
            assert self.process.poll() is None, (self._folder / "log").read_text()[-2000:]
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.1)

    def stop(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def url(self, prefix: str) -> str:
        options = "region=us-east-1&access_key_id=any&secret_access_key=thing"
        return f"s3://sessions/{prefix}?endpoint=http://127.0.0.1:{self.port}&{options}"

    def _make_bucket(self) -> bool:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/sessions", method="PUT", data=b"")
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status == 200
        except urllib.error.HTTPError as error:
            return error.code == 409  # it is there already
        except OSError:
            return False


@pytest.fixture(scope="session")
def moto_server():
    """An emulation in memory, which starts at once and then takes several times longer."""
    pytest.importorskip("moto", reason="moto is not installed")
    program = Path(__file__).with_name("atomic_moto.py")
    yield from _bucket_server("python", lambda port, _: [str(program), "-H", "127.0.0.1", "-p", str(port)])


@pytest.fixture(scope="session")
def rclone_server():
    """A server that ignores preconditions."""
    yield from _bucket_server("rclone", lambda port, data: ["serve", "s3", "--addr", f"127.0.0.1:{port}", data])


@pytest.fixture(scope="session")
def seaweed_server():
    """A real server that keeps its objects on disk."""

    def arguments(port, data):
        others = {name: free_port() for name in ("master", "volume", "filer")}
        return [
            "server",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-s3",
            f"-s3.port={port}",
            f"-s3.port.grpc={free_port()}",
            # These have fixed ports otherwise, which two servers cannot share.
            *("-s3.port.iceberg=0", "-s3.port.lance=0"),
            *(f"-{name}.port={number}" for name, number in others.items()),
            *(f"-{name}.port.grpc={free_port()}" for name in others),
            "-volume.max=20",
            "-master.volumeSizeLimitMB=64",
            # One that was killed waits for that long when it comes back, though it is alone.
            *("-master.electionTimeout=1s", "-master.heartbeatInterval=100ms"),
        ]

    yield from _bucket_server("weed", arguments)


class BucketCluster:
    """SeaweedFS in parts: a master, three servers of volumes, each object on two of them, and the front."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = str(program)
        self._folder = folder
        ports = {name: free_port() for name in ("master", "filer", "s3")}
        here = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        master = f"-master=127.0.0.1:{ports['master']}.{(grpc := free_port())}"
        numbers = [f"-port={ports['master']}", f"-port.grpc={grpc}"]
        options = ["-peers=none", "-defaultReplication=001", "-volumeSizeLimitMB=64", "-telemetry=false"]
        self._master = self._part("master", [*here, *numbers, f"-mdir={self._made('master')}", *options])
        self.volumes = [
            self._part(
                "volume",
                [
                    *here,
                    master,
                    f"-port={free_port()}",
                    f"-port.grpc={free_port()}",
                    f"-dir={self._made(name)}",
                    "-max=20",
                ],
            )
            for name in ("volume-0", "volume-1", "volume-2")
        ]
        grpc = free_port()
        place = f"-defaultStoreDir={self._made('filer')}"
        numbers = [f"-port={ports['filer']}", f"-port.grpc={grpc}"]
        self._filer = self._part("filer", [*here, master, *numbers, place, "-defaultReplicaPlacement=001"])
        filer = f"-filer=127.0.0.1:{ports['filer']}.{grpc}"
        numbers = [f"-port={ports['s3']}", f"-port.grpc={free_port()}", "-port.iceberg=0", "-port.lance=0"]
        command = [self._program, "s3", "-ip.bind=127.0.0.1", filer, *numbers]
        self.front = BucketServer(command, ports["s3"], self._made("front"))

    def start(self) -> None:
        for part in (self._master, *self.volumes, self._filer):
            part.launch()
        self.front.start()

    def stop(self) -> None:
        for part in (self.front, self._filer, *self.volumes, self._master):
            part.stop()

    def _part(self, kind: str, options: list[str]) -> BucketServer:
        return BucketServer([self._program, kind, *options], 0, self._folder)

    def _made(self, name: str) -> Path:
        place = self._folder / name
        place.mkdir()
        return place


@pytest.fixture
def seaweed_cluster():
    """Three servers of volumes with replication 001 behind one front."""
    pytest.importorskip("obstore", reason="obstore is not installed")
    program = Path(sys.executable).with_name("weed")
    if not program.exists():
        pytest.skip("weed is not installed")
    with tempfile.TemporaryDirectory(prefix="holdfast-cluster-") as folder:
        cluster = BucketCluster(program, Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def _bucket_server(name, arguments):
    pytest.importorskip("obstore", reason="obstore is not installed")
    found = Path(sys.executable).with_name(name)
    if not found.exists():
        pytest.skip(f"{name} is not installed")
    with tempfile.TemporaryDirectory(prefix=f"holdfast-{name}-") as folder:
        data = Path(folder) / "data"
        data.mkdir()
        port = free_port()
        server = BucketServer([str(found), *arguments(port, str(data))], port, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()
