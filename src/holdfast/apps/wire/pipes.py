"""Sources and destinations of frames: this process's own input and output, or those of an agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import IO

from holdfast.apps.wire.frames import LINE_BYTES_MAX, Splitter, TooLong
from holdfast.errors import AgentError
from holdfast.storage import widen_pipe

_READ_BYTES = 256 * 1024
_PIPE_BYTES = 256 * 1024
_GRACE_S = 2.0
_LOOK_S = 0.5
# Some agents go on for ever when their input ends, and with them what they are doing. So a watch in the agent's own
# process group, and nobody's child, waits for the end of a pipe of which only this process has the other side; the
# agent takes the shell's place and knows nothing of it.
_SHELL = "/bin/sh"
_WATCH = (
    "( ( trap '' TERM HUP INT; exec 3</dev/fd/{} || exit; read -r _ <&3; kill -TERM 0; sleep 2;"
    ' kill -KILL 0 ) </dev/null >/dev/null 2>&1 & ); exec "$@"'
)


class Pipe:
    """Lines in, lines out, to an asyncio writer or to a file."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        stream: asyncio.StreamWriter | IO[bytes],
        *,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        self._reader = reader
        self._stream = stream
        self._splitter = Splitter(line_bytes_max)
        self._alone = threading.Lock()
        self._offered: list[bytes] = []
        self.has_ended = False  # whether all that the other side wrote has been read

    @property
    def is_lost(self) -> bool:
        """Return whether the system has reported that nobody reads any more: open requests then have no recipient."""
        return isinstance(self._stream, asyncio.StreamWriter) and self._stream.is_closing()

    async def read(self) -> list[bytes | TooLong] | None:
        """Return the lines that came, all that are there at once; None at the end."""
        while not self.has_ended:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                self.has_ended = True
                return self._splitter.end() or None
            lines = self._splitter.feed(data)
            if lines:
                return lines
        return None

    def write(self, data: bytes) -> None:
        """Send whole lines, after those that were offered. A lost reader raises only in ``drain`` and ``read``."""
        with self._alone, contextlib.suppress(ConnectionError, RuntimeError):
            if self._offered:
                data = b"".join((*self._offered, data))
                self._offered.clear()
            if data:
                self._stream.write(data)

    def offer(self, data: bytes) -> bool:
        """Send whole lines from any thread; whether all were taken at once. The rest goes with the next ``write``."""
        with self._alone:
            taken = 0 if self._offered else self._write_now(data)
            if taken < len(data):
                self._offered.append(data[taken:])
            return taken == len(data)

    def _write_now(self, data: bytes) -> int:
        """Write past the event loop, if nothing waits there; how much was taken."""
        if not isinstance(self._stream, asyncio.StreamWriter):
            return 0
        transport, pipe = self._stream.transport, self._stream.get_extra_info("pipe")
        if pipe is None or transport.is_closing() or transport.get_write_buffer_size():
            return 0
        try:
            return pipe.write(data) or 0
        except (OSError, ValueError):  # the reader is gone: the event loop finds that out by itself
            return 0

    async def drain(self) -> None:
        """Wait until the other side has taken enough. Raises ConnectionError if it is gone."""
        if isinstance(self._stream, asyncio.StreamWriter):
            await self._stream.drain()
        else:
            self._stream.flush()

    def close(self) -> None:
        """Tell the other side that nothing more comes."""
        with contextlib.suppress(OSError, RuntimeError):
            self._stream.close()


async def connect(source: IO[bytes], target: IO[bytes], *, line_bytes_max: int = LINE_BYTES_MAX) -> Pipe:
    """Return a pipe that reads one file and writes another; both are closed with it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_READ_BYTES)

    def read_file() -> None:
        with source, contextlib.suppress(RuntimeError):  # the loop has ended
            while data := source.read(_READ_BYTES):
                loop.call_soon_threadsafe(reader.feed_data, data)
            loop.call_soon_threadsafe(reader.feed_eof)

    mode = os.fstat(source.fileno()).st_mode
    # The system does not tell of files when there is more, nor of devices like /dev/null.
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or source.isatty():
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    else:
        threading.Thread(target=read_file, daemon=True).start()
    with contextlib.suppress(OSError):  # no pipe, or this user has too many that are wide
        widen_pipe(target.fileno(), _PIPE_BYTES)
    stream: asyncio.StreamWriter | IO[bytes] = target
    with contextlib.suppress(ValueError):  # a file is written as it is
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
        stream = asyncio.StreamWriter(transport, protocol, None, loop)
    return Pipe(reader, stream, line_bytes_max=line_bytes_max)


class AgentProcess:
    """A running agent, in a process group of its own: some start themselves again. It ends with this process."""

    def __init__(self, process: asyncio.subprocess.Process, pipe: Pipe, lifeline: int) -> None:
        self._process = process
        self._lifeline: int | None = lifeline
        self.pipe = pipe
        self._burying = asyncio.ensure_future(self._bury())

    @classmethod
    async def start(
        cls, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
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
            told = f"the agent could not be started: {getattr(error, 'strerror', None) or error}"
            raise AgentError(told, remedy=f"Check the command: {' '.join(command)}") from error
        finally:
            os.close(watched)
        assert process.stdout is not None
        assert process.stdin is not None
        return cls(process, Pipe(process.stdout, process.stdin), lifeline)

    @property
    def returncode(self) -> int | None:
        """Return the exit code of the agent; None while it runs."""
        return self._process.returncode

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
        self._burying.cancel()
        # Unread output keeps its pipe open, and asyncio has no other way to close it.
        self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else closes it
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        return status

    async def _bury(self) -> None:
        """Watch for the agent's death: processes that it started may hold its output open and hide it."""
        while self._process.returncode is None:  # noqa: ASYNC110 - the wait for it may be longer
            await asyncio.sleep(_LOOK_S)
        await asyncio.sleep(_GRACE_S)  # what it wrote last is still read
        if not self.pipe.has_ended:
            self._kill(signal.SIGKILL)

    def _kill(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _watched(command: Sequence[str], cwd: str | None, env: Mapping[str, str] | None, watched: int) -> list[str]:
    """Return the command with the watch; alone if it cannot be found, for the system to say why."""
    name = command[0] if command else ""
    folders = [cwd or ""]
    if os.sep not in name:
        folders = ({**os.environ, **(env or {})}.get("PATH") or os.defpath).split(os.pathsep)
    found = any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders)
    if not name or not found or not os.access(_SHELL, os.X_OK):
        return list(command)
    return [_SHELL, "-c", _WATCH.format(watched), "sh", *command]


ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # what asks a process to end


def serve(work: Callable[[Pipe], Awaitable[None]], *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
    """Run something on standard input and output; a request to end ends it in good order."""

    async def serving() -> None:
        # Copies: what is closed at the end must not be what others of this process use.
        source = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        target = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
        pipe = await connect(source, target, line_bytes_max=line_bytes_max)
        # Output of a library must not come between the frames.
        with contextlib.redirect_stdout(sys.stderr):
            await until_asked_to_end(work(pipe))
        pipe.close()

    asyncio.run(serving())


async def until_asked_to_end(work: Awaitable[None]) -> None:
    """Do some work; a signal that asks the process to end cancels it."""
    running = asyncio.ensure_future(work)
    for number in ENDING:
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running


# Slow production of output, by one thread, while the event loop does other things.
_AHEAD = 2


async def pour(make: Callable[[], bytes], target: Pipe) -> None:
    """Send what ``make`` gives, called again and again in one thread until it gives nothing.

    The event loop has nothing to do with it as long as the target takes all at once: handing pieces over would cost
    more than sending them. A few are made before they are taken, and no more. Once this has ended, in whatever way,
    nothing more is sent. Raises what ``make`` raises, after what it gave before was sent, and ConnectionError.
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
