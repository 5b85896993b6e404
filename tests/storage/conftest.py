"""Real servers for the stores that need one: started by the tests, and ended by them."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from glob import glob
from pathlib import Path
from uuid import uuid4

import pytest


class PostgresServer:
    """A PostgreSQL server of its own, on loopback, in a directory that goes with it."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        # initdb refuses root: then the server runs as the user that owns nothing.
        self._account = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self._account = {
                "user": nobody.pw_uid,
                "group": nobody.pw_gid,
                "extra_groups": [],
            }

    @property
    def url(self) -> str:
        return f"postgresql://holdfast@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        options = ["--auth=trust", "--username=holdfast", "--encoding=UTF8", "--locale=C"]
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
        }
        arguments = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.data, *arguments],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self._account,
            )
        self._wait()

    def kill(self) -> None:
        """As a power cut would: the whole server at once, with nothing put in order."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            if self.process.poll() is None:
                self.kill()

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / name, *arguments],
            capture_output=True,
            cwd=self.folder,
            check=False,
            **self._account,
        )
        assert done.returncode == 0, done.stderr.decode()

    def _wait(self) -> None:
        until = time.monotonic() + 60
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def postgres_binaries() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += [Path(place) for place in sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    return next((one for one in places if (one / "postgres").exists()), None)


@pytest.fixture(scope="session")
def postgres_server():
    """One server for all tests of a process; skipped, with the reason, where there is none."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: no initdb here")
    with tempfile.TemporaryDirectory(prefix="holdfast-postgres-") as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(binaries, Path(folder))
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def postgres_url(postgres_server):
    """A schema that nobody used before."""
    return f"{postgres_server.url}?schema=t{uuid4().hex}"
