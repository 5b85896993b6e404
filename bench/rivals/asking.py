"""A process with a rival's store, driven from outside with a timeout."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from typing import Any

from bench.child import ROOT
from bench.recovery.peers import PYTHON as PEERS

__all__ = ["FRAMEWORKS", "Rival", "python_of"]

FRAMEWORKS = os.path.join(ROOT, ".venv-frameworks", "bin", "python")


def python_of(place: str) -> str | None:
    """Return the interpreter of an environment; None if it was not created."""
    found = {"frameworks": [FRAMEWORKS], "peers": [PEERS], "both": [PEERS, FRAMEWORKS]}[place]
    return next((path for path in found if os.path.exists(path)), None)


class Rival:
    """A process of `bench.rivals.serving`, or of another module with line-based answers."""

    def __init__(self, python: str, *words: str, prefix: tuple[str, ...] = ()) -> None:
        module = words or ("bench.rivals.serving",)
        self._process = subprocess.Popen(
            [*prefix, python, "-W", "ignore", "-m", *module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._said = b""
        self._errors = b""
        self._has_ended = False

    def ask(self, task: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer; ``{"failed": reason}`` if there is none, after which the process is gone."""
        if self._has_ended:
            return {"failed": "its process has ended"}
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._line(seconds)
        except BrokenPipeError:
            answer = b""
        if answer is None:
            self.end()
            return {"failed": f"no answer within {seconds:.0f} seconds"}
        if not answer:
            self._hear_errors()
            said = self._errors.decode(errors="replace").strip().splitlines()
            self.end()
            return {"failed": (said[-1] if said else "it ended without a word")[:200]}
        found: dict[str, Any] = json.loads(answer)
        return found

    def _line(self, seconds: float) -> bytes | None:
        """Return the next line; empty if the output ended, None if it takes too long."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        until = time.monotonic() + seconds
        out, err = self._process.stdout.fileno(), self._process.stderr.fileno()
        watched = [out, err]
        while b"\n" not in self._said:
            ready, _, _ = select.select(watched, [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            if err in ready:
                more = os.read(err, 65_536)
                self._errors = (self._errors + more)[-4_096:]
                if not more:
                    watched = [out]
            if out in ready:
                more = os.read(out, 1 << 20)
                if not more:
                    return b""
                self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _hear_errors(self) -> None:
        assert self._process.stderr is not None
        while more := os.read(self._process.stderr.fileno(), 65_536):
            self._errors = (self._errors + more)[-4_096:]

    def end(self) -> None:
        """Stop it and its child processes. A second call has no effect."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._process.poll() is None:
            assert self._process.stdin is not None
            try:
                self._process.stdin.close()
                self._process.wait(3)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
