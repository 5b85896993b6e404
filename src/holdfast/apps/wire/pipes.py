"""Where frames come from and go to: this process's own input and output, or those of an agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import IO, Protocol

from holdfast.apps.wire.frames import Splitter, TooLong
from holdfast.errors import AgentError
from holdfast.storage import widen_pipe

__all__ = ["AgentProcess", "Pipe", "PipeWriter", "connect", "own_pipes"]

_READ_BYTES = 256 * 1024
_PIPE_BYTES = 256 * 1024
_GRACE_S = 2.0
_LOOK_S = 0.5
# Some agents go on for ever when their input ends, and with them what they are doing. So a watch
# in the agent's own process group, and nobody's child, waits for the end of a pipe of which only
# this process has the other side; the agent takes the shell's place and knows nothing of it.
_SHELL = "/bin/sh"
_WATCH = (
    "( ( trap '' TERM HUP INT; exec 3</dev/fd/{} || exit; read -r _ <&3; kill -TERM 0; sleep 2;"
    ' kill -KILL 0 ) </dev/null >/dev/null 2>&1 & ); exec "$@"'
)


class PipeWriter:
    """What a pipe writes to: an asyncio writer, or a file."""

    def __init__(self, stream: asyncio.StreamWriter | IO[bytes]) -> None:
        self._stream = stream
        self._alone = threading.Lock()
        self._offered: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Hand bytes over, after those that were offered; what is not taken yet is kept."""
        with self._alone:
            if self._offered:
                data = b"".join((*self._offered, data))
                self._offered.clear()
            if data:
                self._stream.write(data)

    def offer(self, data: bytes) -> bool:
        """Write from any thread, without waiting; whether the reader took all of it.

        What it did not take comes before anything else, with the next ``write``.
        """
        with self._alone:
            taken = 0 if self._offered else _write_now(self._stream, data)
            if taken < len(data):
                self._offered.append(data[taken:])
            return taken == len(data)

    async def drain(self) -> None:
        """Wait until the reader has taken enough. Raises ConnectionError if it is gone."""
        if isinstance(self._stream, asyncio.StreamWriter):
            await self._stream.drain()
        else:
            self._stream.flush()

    @property
    def is_lost(self) -> bool:
        """Whether nobody reads it any more, as far as the system has told."""
        return isinstance(self._stream, asyncio.StreamWriter) and self._stream.is_closing()

    def close(self) -> None:
        """The reader sees the end."""
        with contextlib.suppress(OSError, RuntimeError):
            self._stream.close()


def _write_now(stream: asyncio.StreamWriter | IO[bytes], data: bytes) -> int:
    """Write past the event loop, if nothing waits there; how much was taken."""
    if not isinstance(stream, asyncio.StreamWriter):
        return 0
    transport, pipe = stream.transport, stream.get_extra_info("pipe")
    if pipe is None or transport.is_closing() or transport.get_write_buffer_size():
        return 0
    try:
        return pipe.write(data) or 0
    except (OSError, ValueError):  # the reader is gone: the event loop finds that out by itself
        return 0


class Pipe:
    """Lines in, lines out."""

    def __init__(self, reader: asyncio.StreamReader, writer: PipeWriter, *, line_bytes_max: int | None = None) -> None:
        self._reader = reader
        self._writer = writer
        self._splitter = Splitter() if line_bytes_max is None else Splitter(line_bytes_max)
        self._ended = False

    @property
    def has_ended(self) -> bool:
        """Whether all that the other side wrote has been read."""
        return self._ended

    @property
    def is_lost(self) -> bool:
        """Whether the other side reads no more: what is still asked is asked by nobody."""
        return self._writer.is_lost

    async def read(self) -> list[bytes | TooLong] | None:
        """The lines that came, all that are there at once; None at the end."""
        while not self._ended:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                self._ended = True
                return self._splitter.end() or None
            lines = self._splitter.feed(data)
            if lines:
                return lines
        return None

    def write(self, data: bytes) -> None:
        """Send whole lines. Raises nothing: a lost reader shows in ``drain`` and ``read``."""
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._writer.write(data)

    def offer(self, data: bytes) -> bool:
        """Send whole lines from any thread, without waiting; whether all were taken at once.

        The rest is sent before anything else is, with the next ``write``.
        """
        return self._writer.offer(data)

    async def drain(self) -> None:
        """Wait until the other side has taken enough. Raises ConnectionError if it is gone."""
        await self._writer.drain()

    def close(self) -> None:
        """Tell the other side that nothing more comes."""
        self._writer.close()


async def own_pipes(*, line_bytes_max: int | None = None) -> Pipe:
    """The standard input and output of this process, whatever they are."""
    # Copies: what is closed at the end must not be what others of this process use.
    source = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    target = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    return await connect(source, target, line_bytes_max=line_bytes_max)


async def connect(source: IO[bytes], target: IO[bytes], *, line_bytes_max: int | None = None) -> Pipe:
    """A pipe that reads one file and writes another; both are closed with it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_READ_BYTES)
    if _can_be_waited_for(source):
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    else:
        threading.Thread(target=_read_file, args=(source, loop, reader), daemon=True).start()
    with contextlib.suppress(OSError):  # no pipe, or this user has too many that are wide
        widen_pipe(target.fileno(), _PIPE_BYTES)
    try:
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
        writer = PipeWriter(asyncio.StreamWriter(transport, protocol, None, loop))
    except ValueError:
        writer = PipeWriter(target)
    return Pipe(reader, writer, line_bytes_max=line_bytes_max)


def _can_be_waited_for(source: IO[bytes]) -> bool:
    """Whether the system tells when there is more: not of files, nor of devices like /dev/null."""
    mode = os.fstat(source.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or source.isatty()


def _read_file(source: IO[bytes], loop: asyncio.AbstractEventLoop, reader: asyncio.StreamReader) -> None:
    while data := source.read(_READ_BYTES):
        loop.call_soon_threadsafe(reader.feed_data, data)
    loop.call_soon_threadsafe(reader.feed_eof)


class AgentProcess:
    """A running agent, in a process group of its own, since some start themselves again.

    The whole group ends with this process, however that ends.
    """

    def __init__(self, process: asyncio.subprocess.Process, pipe: Pipe, lifeline: int) -> None:
        self._process = process
        self._lifeline: int | None = lifeline
        self.pipe = pipe
        self._burying = asyncio.ensure_future(self._bury())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        line_bytes_max: int | None = None,
    ) -> AgentProcess:
        """Start a command; ``env`` is added to this process's own. Raises AgentError."""
        watched, lifeline = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *_watched(command, cwd, env, watched),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=cwd,
                env={**os.environ, **env} if env else None,
                limit=_READ_BYTES,
                start_new_session=True,
                pass_fds=(watched,),
            )
        except (OSError, ValueError) as error:
            os.close(lifeline)
            raise AgentError(
                f"the agent could not be started: {getattr(error, 'strerror', None) or error}",
                remedy=f"Check the command: {' '.join(command)}",
            ) from error
        finally:
            os.close(watched)
        reader, stdin = process.stdout, process.stdin
        if reader is None or stdin is None:  # pragma: no cover - both were asked for
            raise AgentError("the agent has no pipes")
        return cls(process, Pipe(reader, PipeWriter(stdin), line_bytes_max=line_bytes_max), lifeline)

    @property
    def pid(self) -> int:
        """Its process id, which is that of its group too."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """How it ended, once it has."""
        return await self._process.wait()

    async def end(self, grace_s: float = _GRACE_S) -> int:
        """End of input, then a request, then force: for the whole group."""
        self.pipe.close()
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._process.wait(), grace_s)
                break
            self._kill(signal_number)
        status = await self._process.wait()
        self._kill(signal.SIGKILL)  # what it left behind
        self._let_go()
        return status

    def kill(self) -> None:
        """End it at once, with everything that it started."""
        self._kill(signal.SIGKILL)

    async def _bury(self) -> None:
        """What an agent started may hold its output open, so that its death would not be seen."""
        while self._process.returncode is None:  # noqa: ASYNC110 - the wait for it may be longer
            await asyncio.sleep(_LOOK_S)
        await asyncio.sleep(_GRACE_S)  # what it wrote last is still read
        if not self.pipe.has_ended:
            self._kill(signal.SIGKILL)

    def _let_go(self) -> None:
        self._burying.cancel()
        # What nobody read of it keeps its pipe open, and asyncio has no other way to close it.
        self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else closes it
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def _kill(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _watched(command: Sequence[str], cwd: str | None, env: Mapping[str, str] | None, watched: int) -> list[str]:
    """The command with the watch; alone if it cannot be found, for the system to say why."""
    name = command[0] if command else ""
    folders = [cwd or ""]
    if os.sep not in name:
        folders = ({**os.environ, **(env or {})}.get("PATH") or os.defpath).split(os.pathsep)
    found = any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders)
    if not name or not found or not os.access(_SHELL, os.X_OK):
        return list(command)
    return [_SHELL, "-c", _WATCH.format(watched), "sh", *command]


# Serving on this process's own input and output, until they end or someone ends the process.


ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What asks a process to end."""


def serve(work: Callable[[Pipe], Awaitable[None]], *, line_bytes_max: int | None = None) -> None:
    """Run something on standard input and output; a request to end ends it in good order."""
    asyncio.run(_serve(work, line_bytes_max))


async def _serve(work: Callable[[Pipe], Awaitable[None]], line_bytes_max: int | None) -> None:
    pipe = await own_pipes(line_bytes_max=line_bytes_max)
    running = asyncio.ensure_future(work(pipe))
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    pipe.close()


# What takes time to make, made and sent by one thread, while the event loop does other things.


_AHEAD = 2


class Target(Protocol):
    """Who is sent something."""

    def offer(self, data: bytes) -> bool:
        """Send from any thread, without waiting; whether all of it was taken at once.

        What was not is sent before anything else is, with the next ``write``.
        """

    def write(self, data: bytes) -> None:
        """Send; what is not taken yet is kept."""

    async def drain(self) -> None:
        """Wait until enough was taken. Raises ConnectionError if nobody takes it any more."""


async def pour(make: Callable[[], bytes], target: Target) -> None:
    """Send what ``make`` gives, called again and again in one thread until it gives nothing.

    The event loop has nothing to do with it as long as the target takes all at once: handing
    pieces over would cost more than sending them. A few are made before they are taken, and no
    more. Once this has ended, in whatever way, nothing more is sent. Raises what ``make`` raises,
    after what it gave before was sent, and ConnectionError.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[bool] = asyncio.Queue()
    room = threading.Semaphore(_AHEAD - 1)
    sending = threading.Lock()
    is_over = False

    def send(made: bytes) -> bool:
        with sending:
            return is_over or target.offer(made)

    def work() -> None:
        try:
            while not is_over and (made := make()):
                if not send(made):
                    loop.call_soon_threadsafe(waiting.put_nowait, True)
                    room.acquire()
        finally:
            loop.call_soon_threadsafe(waiting.put_nowait, False)

    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while await waiting.get():
            target.write(b"")
            await target.drain()
            room.release()
        await working
    finally:
        with sending:  # which never waits for the target
            is_over = True
        room.release()
        target.write(b"")
