"""A temporary PostgreSQL server on loopback, removed with its data at the end."""

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
from typing import Any

from bench.child import SCRATCH

__all__ = ["Server", "end_on_request", "missing"]

_START_S = 60


def missing() -> str | None:
    """Return the reason why no server can be started here; None if one can."""
    try:
        import asyncpg  # noqa: F401 - only whether it is there
    except ImportError:
        return "asyncpg is not installed"
    return None if _binaries() else "PostgreSQL is not installed: no initdb here"


def _binaries() -> str | None:
    found = shutil.which("initdb")
    places = [os.path.dirname(os.path.realpath(found))] if found else []
    places += sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)
    return next((one for one in places if os.path.exists(os.path.join(one, "postgres"))), None)


def end_on_request() -> None:
    """Make SIGTERM end the program like Ctrl-C, so that no server is left running."""

    def stop(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


class Server:
    """A server with default durability: a commit is on disk when it returns."""

    def __init__(self) -> None:
        self._binaries = _binaries() or ""
        os.makedirs(SCRATCH, exist_ok=True)
        self._folder = tempfile.mkdtemp(prefix="postgres-", dir=SCRATCH)
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:
            # initdb refuses to run as root: then the server runs as an unprivileged user.
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            ids = {"user": nobody.pw_uid, "group": nobody.pw_gid}
            self._account = {**ids, "extra_groups": []}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self.url = f"postgresql://holdfast@127.0.0.1:{self._port}/postgres"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Create the data directory and start. Raises CalledProcessError or TimeoutError."""
        data = os.path.join(self._folder, "data")
        options = ["--auth=trust", "--username=holdfast", "--encoding=UTF8", "--locale=C"]
        self._run("initdb", "--pgdata", data, *options)
        settings = [f"port={self._port}", "listen_addresses=127.0.0.1", "max_connections=120"]
        settings += ["unix_socket_directories=", "shared_buffers=256MB"]
        words = [word for setting in settings for word in ("-c", setting)]
        with open(os.path.join(self._folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [os.path.join(self._binaries, "postgres"), "-D", data, *words],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
                **self._account,
            )
        until = time.monotonic() + _START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise TimeoutError("the server does not start")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it, and remove its data."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def cpu_seconds(self) -> float:
        """Return the processor time that all processes of the server have used so far."""
        assert self.process is not None
        own = str(self.process.pid)
        ticks = 0
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
                if name == own:
                    ticks += sum(map(int, fields[11:15]))  # with those that have ended
                elif fields[1] == own:
                    ticks += sum(map(int, fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _answers(self) -> bool:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self._port)):
                return False
        command = [os.path.join(self._binaries, "pg_isready"), "-h", "127.0.0.1"]
        done = subprocess.run([*command, "-p", str(self._port)], stdout=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run(
            [os.path.join(self._binaries, name), *arguments],
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            check=True,
            **self._account,
        )
