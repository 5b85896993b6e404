"""Real tools that come as npm packages, each in an exact version, installed once.

They are put into ``.cache/peers``. What cannot be had here is skipped, with the reason.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

HOME = os.environ.get("HOME", "")  # before the tests get one of their own: npm is set up there
CACHE = Path(__file__).parents[1] / ".cache" / "peers"
INSTALL_SECONDS = 180


class Peer(NamedTuple):
    """A tool, its package, the command in it, and whether Node may be too old for it here."""

    tool: str
    package: str
    version: str
    command: str
    newer_node: bool = False


class Installed(NamedTuple):
    """Where the command is, and which PATH it wants."""

    command: Path
    path: str


NODE = Peer("node", "node", "24.21.0", "node")


def install(peer: Peer) -> Installed:
    """A tool, ready to be run; the test is skipped where it cannot be had."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("Node and npm are not installed here")
    path = os.environ["PATH"]
    if peer.newer_node and _node_is_old():
        path = f"{install(NODE).command.parent}{os.pathsep}{path}"
    place = CACHE / f"{peer.tool}-{peer.version}"
    found = place / "node_modules" / ".bin" / peer.command
    what = f"{peer.package}@{peer.version}"
    if not found.exists():
        _install(what, place, path)
    if not found.exists():
        pytest.skip(f"{what} has no command {peer.command} here")
    return Installed(found, path)


def _node_is_old() -> bool:
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False)
    major = told.stdout.strip().removeprefix("v").partition(".")[0]
    return not major.isdigit() or int(major) < int(NODE.version.partition(".")[0])


def _install(what: str, place: Path, path: str) -> None:
    part = place.with_name(f"{place.name}.{os.getpid()}")
    part.mkdir(parents=True)
    # Where there is no network, that is to be found out in seconds.
    retries = ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    patience = ["--fetch-retries=1", *retries, "--fetch-timeout=60000"]
    order = ["npm", "install", "--no-audit", "--no-fund", *patience, "--prefix", str(part)]
    try:
        done = subprocess.run(
            [*order, what],
            env={**os.environ, "HOME": HOME, "PATH": path},
            cwd=part,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
        if done.returncode:
            told = [line for line in done.stderr.splitlines() if line.startswith("npm error ")]
            why = " ".join(line.removeprefix("npm error ") for line in told[:3])
            pytest.skip(f"{what} cannot be installed here: {why[:300]}")
        if not place.exists():
            part.rename(place)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} took longer than {INSTALL_SECONDS} s to install")
    finally:
        shutil.rmtree(part, ignore_errors=True)


def bare_environment(home: Path, path: str) -> dict[str, str]:
    """Nothing of ours, and nothing but loopback answers: what needs the network would show it."""
    env = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}
    env |= dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9")
    return env | dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")


class Peers:
    """What the tests of real tools need: the tools, and the processes that they leave."""

    Peer = Peer
    install = staticmethod(install)
    environment = staticmethod(bare_environment)

    @staticmethod
    def processes(home: Path) -> list[int]:
        """Everything that runs with this home, whoever started it."""
        mark = f"HOME={home}".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in place.read_bytes().split(b"\0"):
                    found.append(int(place.parent.name))
            except OSError:
                continue  # gone meanwhile, or another user's
        return found

    @classmethod
    def are_gone(cls, home: Path, within_s: float) -> bool:
        """Whether all of them end by themselves."""
        until = time.monotonic() + within_s
        while cls.processes(home):
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    @classmethod
    def kill(cls, home: Path) -> None:
        """As the worst crash does it."""
        for pid in cls.processes(home):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@pytest.fixture(scope="session")
def peers() -> Peers:
    """Real tools."""
    return Peers()
