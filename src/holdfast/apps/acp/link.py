"""An agent that we drive: started, started again when it dies, and asked in wire order."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Container, Iterator
from typing import Any

from holdfast.apps.wire import frames as rpc
from holdfast.apps.wire.frames import Frame, RpcError, TooLong
from holdfast.apps.wire.pipes import AgentProcess
from holdfast.errors import AgentError

Answered = Callable[[Frame], None]
_START_S = 60.0


class AgentGone(RpcError):
    """The agent ended, or could not be started."""

    def __init__(self, message: str) -> None:
        super().__init__(rpc.INTERNAL, message)


class AgentLink:
    """One agent that we drive, whichever process it is at the moment.

    What the agent says on its own goes to ``on_line``, and if that does not take it, as a frame to
    ``on_frame``; answers go to whoever asked: all in wire order. ``on_batch`` is called after what
    came at once, ``on_death`` when it has died, ``on_noise`` with what is no frame.
    """

    def __init__(
        self,
        launch: Callable[[], Awaitable[AgentProcess]],
        *,
        on_frame: Callable[[Frame], None],
        on_batch: Callable[[], Awaitable[None]],
        on_death: Callable[[str], Awaitable[None]],
        on_noise: Callable[[bytes], None],
        on_line: Callable[[bytes], bool] = lambda _: False,
        breaker: Breaker | None = None,
    ) -> None:
        self._launch = launch
        self._on_line = on_line
        self._on_frame = on_frame
        self._on_batch = on_batch
        self._on_death = on_death
        self._on_noise = on_noise
        self.breaker = breaker or Breaker()
        self._numbers = itertools.count(1)
        self._waiting: dict[Any, Answered] = {}
        self._process: AgentProcess | None = None
        self._greeted: AgentProcess | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._ended = False
        self._greeting: Frame | None = None
        self.login: Frame | None = None  # an authentication that worked, which is made again after a restart
        self.hello: Frame = {}  # what the agent said of itself at ``initialize``

    @property
    def alive(self) -> bool:
        """Return whether the agent runs and has been initialised."""
        return self._process is not None and self._process is self._greeted

    @property
    def can(self) -> Frame:
        """Return the capabilities that the agent announces."""
        return rpc.object_in(self.hello, "agentCapabilities")

    def advertises(self, name: str) -> bool:
        """Return whether the agent announces that it can list, resume, fork, close or delete sessions."""
        return rpc.member(self.can, "sessionCapabilities", name) is not None

    @property
    def name(self) -> str:
        """Return the agent's name for itself."""
        return rpc.text_in(self.hello, "agentInfo", "name") or "agent"

    async def greet(self, params: Frame) -> Frame:
        """Begin: start it and pass the client's ``initialize`` on. Raises RpcError."""
        self._greeting = params
        # The editor's capabilities are part of the handshake, which an agent accepts only once.
        if self._process is not None:
            await self._let_go()
        await self.ready()
        return self.hello

    async def ready(self) -> None:
        """Return once it runs and has been greeted. Raises AgentGone if that cannot be."""
        if self.alive:
            return
        # Many requests may find it dead at once; one of them starts it.
        async with self._starting:
            if not self.alive:
                await self._start()

    async def _start(self) -> None:
        if self._ended or self._greeting is None:
            raise AgentGone("the connection has not been initialized")
        wait_s = self.breaker.wait_s
        if wait_s:
            told = f"the agent failed {self.breaker.failures} times in a row; it is tried again in {wait_s:.0f} s"
            raise AgentGone(told)
        await asyncio.sleep(self.breaker.pause_s)
        try:
            process = await self._launch()
        except AgentError as error:
            self.breaker.failed()
            raise AgentGone(f"{error.message}. {error.remedy}") from error
        self._reading = asyncio.ensure_future(self._read(process))
        self._process = process
        try:
            self.hello = await self.request("initialize", self._greeting, timeout_s=_START_S)
            if self.login is not None:
                await self.request("authenticate", self.login, timeout_s=_START_S)
        except BaseException as error:
            if isinstance(error, (RpcError, TimeoutError)):  # else the waiter gave up
                self.breaker.failed()
            await self._let_go()
            if isinstance(error, TimeoutError):
                raise AgentGone(f"the agent did not answer within {_START_S:.0f} s") from error
            raise
        self._greeted = process
        if not isinstance(self.hello, dict):
            self.hello = {}

    async def request(self, method: str, params: Any, *, timeout_s: float | None = None) -> Any:
        """Ask it something of our own. Raises RpcError with its answer, TimeoutError."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(answer: Frame) -> None:
            if future.done():
                return
            error = AgentGone(answer["error"]["message"]) if answer.get("agentGone") else rpc.error_in(answer)
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer.get("result"))

        number = self.ask(method, params, settle)
        try:
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            self.tell("$/cancel_request", {"requestId": number})
            raise
        finally:
            # An answer that comes too late finds nobody.
            self._waiting.pop(number, None)

    def ask(self, method: str, params: Any, answered: Answered) -> int:
        """Send a request; ``answered`` is called with the whole answer, in wire order."""
        number = next(self._numbers)
        if self._process is None:
            raise AgentGone("the agent is not running")
        self._waiting[number] = answered
        self._process.pipe.write(rpc.encode(rpc.request(number, method, params)))
        return number

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send(rpc.notification(method, params))

    def send(self, frame: Frame) -> None:
        """Send a frame as it is; to an agent that is gone, nothing."""
        if self._process is not None:
            self._process.pipe.write(rpc.encode(frame))

    async def drain(self) -> None:
        """Wait until it has taken what was sent."""
        if self._process is not None:
            with contextlib.suppress(ConnectionError):
                await self._process.pipe.drain()

    async def end(self) -> None:
        """End the connection."""
        self._ended = True
        await self._let_go()

    async def _let_go(self) -> None:
        process, self._process = self._process, None
        reading, self._reading = self._reading, None
        if reading is not None and reading is not asyncio.current_task():
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        if process is not None:
            await process.end()
        self._fail_all("the agent was ended")

    async def _read(self, process: AgentProcess) -> None:
        try:
            while (lines := await process.pipe.read()) is not None:
                for line in lines:
                    # One line that nobody was prepared for must not make us deaf for the others.
                    try:
                        self._take(line)
                    except Exception as error:  # noqa: BLE001 - whatever it is, the next line is read
                        self._on_noise(f"{type(error).__name__}: {error}".encode())
                await self._on_batch()
        except ConnectionError:
            pass
        # Else it was stopped on purpose, and that code informs the waiters.
        if self._process is process:
            self._process, self._reading = None, None
            status = await process.end()
            self.breaker.failed()
            reason = f"the agent ended with {f'signal {-status}' if status < 0 else f'exit code {status}'}"
            self._fail_all(reason)
            await self._on_death(reason)

    def _take(self, line: bytes | TooLong) -> None:

        if not isinstance(line, TooLong) and self._on_line(line):
            return
        try:
            frame = rpc.parse(line)
        except RpcError as error:
            # Some agents print to their standard output. An editor would take it for a frame.
            if isinstance(line, TooLong):
                self._on_noise(line.head)
                self.send(rpc.error_frame(None, error))
            else:
                self._on_noise(line)
            return
        if "method" in frame:
            self._on_frame(frame)
        elif (answered := self._waiting.pop(frame.get("id"), None)) is not None:
            answered(frame)

    def _fail_all(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, {}
        for answered in waiting.values():
            answered({"error": {"code": rpc.INTERNAL, "message": reason}, "agentGone": True})


_PAUSE_S = 0.25


class Breaker:
    """A circuit breaker: after several failures in a row nothing is tried until a rest is over."""

    def __init__(
        self, failures_max: int = 3, rest_s: float = 30.0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._failures_max = failures_max
        self._rest_s = rest_s
        self._clock = clock
        self._failed_at = 0.0
        self.failures = 0  # failures in a row so far

    @property
    def wait_s(self) -> float:
        """Return how long to wait before an attempt; 0.0 if one may be made now, whose failure restarts the pause."""
        if self.failures < self._failures_max:
            return 0.0
        return max(0.0, self._failed_at + self._rest_s - self._clock())

    @property
    def pause_s(self) -> float:
        """Return how long to pause before the next attempt: nothing at first, then twice as long each time."""
        return 0.0 if not self.failures else _PAUSE_S * 2 ** (self.failures - 1)

    def failed(self) -> None:
        """Note a failed attempt."""
        self.failures += 1
        self._failed_at = self._clock()

    def worked(self) -> None:
        """Note a successful attempt, which resets the count."""
        self.failures = 0


_FRAMES_MAX = 1_000


class Early:
    """Frames about ids that nobody knows yet, while someone waits for the agent to name one.

    ``deliver`` is given what was kept, in order, once it is known what it is about, or known that
    nobody waits for it any more.
    """

    def __init__(self, deliver: Callable[[list[Frame]], None]) -> None:
        self._deliver = deliver
        self._kept: list[tuple[str, Frame]] = []
        self._waiting = 0

    def keep(self, agent_id: str, frame: Frame) -> bool:
        """Keep a frame for later; False if there is nothing to wait for, or no room."""
        if not self._waiting or len(self._kept) >= _FRAMES_MAX:
            return False
        self._kept.append((agent_id, frame))
        return True

    @contextlib.contextmanager
    def expecting(self, known: Container[str]) -> Iterator[None]:
        """Mark, for the block, that a session is requested from the agent; its id is then ``known``."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            kept, self._kept = self._kept, []
            due = [frame for id, frame in kept if id in known or not self._waiting]
            self._kept = [(id, frame) for id, frame in kept if id not in known and self._waiting]
            if due:
                self._deliver(due)

    def forget(self) -> None:
        """Forget the ids of an agent that has ended."""
        self._kept = []
