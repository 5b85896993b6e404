"""The connection to a PostgreSQL server: one thread, a few connections, and retries when they break."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.errors import Forbidden, HoldfastError, StoreFull, Unavailable, UsageError
from holdfast.storage._worker import new_outcome
from holdfast.storage.disk import forks
from holdfast.storage.files.tree import translated
from holdfast.storage.postgres.tables import MIGRATIONS

if TYPE_CHECKING:
    from asyncpg import Connection

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]
_CHANNEL = "holdfast"
_SAY_AFTER_S = 0.005
# One statement is one transaction: the setting applies to that one alone.
_NOTIFY = """
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, said)
FROM unnest($2::text[]) AS said
"""
_NAMES_AT_ONCE = 200  # a message has at most 8,000 bytes
_BACK_OFF_S = 0.05
_BACK_OFF_MAX_S = 2.0
_FIRST_S = 5.0
_ANSWER_S = 2
_CALLED_OFF_S = 5
# Worth another try: the connection broke, the server is stopping or starting, or two were in each other's way.
_AGAIN = ("08", "40", "57P", "57014", "55P03", "53300", "23505")
# With these errors the server may have done all of the statement, or nothing.
_UNKNOWN = ("08", "57P")
_FULL = ("53100", "53200", "53400")
_REFUSED = ("28", "42501", "0P")
_READS_ONLY = "25006"
_TOO_LONG = "57014"
_NO_SUCH_HOST = "TargetServerAttributeNotMatched"
# A pooler answers for the server with a number of its own. In one simple message, which leaves nothing behind.
_IS_SERVER = "SELECT 1 / (pg_backend_pid() = {})::int"
_IS_NOT = "22012"


class ServerLink:
    """Runs coroutines on connections of one server, from any thread."""

    def __init__(self, dsns: list[str], options: UrlOptions) -> None:
        self._dsns = dsns
        self._options = options
        self.is_pooled = False
        """True behind a connection pooler: then nothing outlives a transaction, and notifications do not work."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # One for each loop: a new one may begin while a closed one is still ending.
        self._idle: dict[asyncio.AbstractEventLoop, list[Connection]] = {}
        self._slots: asyncio.Semaphore | None = None
        self._calling: asyncio.Lock | None = None  # held while the line for notifications is opened
        self._forks = forks.count
        self._migrated = False
        self._tasks: dict[Future[Any], asyncio.Task[Any]] = {}
        self._listener: Connection | None = None
        self._changed: dict[str, list[threading.Event]] = {}
        self._unsaid: set[str] = set()

    @property
    def schema(self) -> str:
        return self._options.schema

    def run(self, work: Callable[[Connection], Awaitable[T]], *, again: bool = True) -> T:
        """Return the result of ``work`` with a connection, called on the thread of this link.

        With ``again`` it is retried, as long as the options allow, when the connection
        breaks or the server asks for it; so repeating it must be harmless. Without, the error
        says that the outcome is unknown.
        """
        return self._on_thread(partial(self.tried, work, again=again))

    def fetch(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of one statement, which must be harmless to repeat."""
        return self.run(lambda connection: connection.fetch(query, *values))

    def begin(self, work: Work[None]) -> None:
        """Begin it on the link's thread; a close cancels it. Raises RuntimeError if no thread can be started."""
        self._renew_after_fork()
        with self._lock:
            self._started().call_soon_threadsafe(self._work, work, new_outcome())

    def listen(self, name: str) -> threading.Event:
        """Return an event that is set on a notification of ``name``, while the line holds."""
        heard = threading.Event()
        with self._lock:
            self._changed.setdefault(name, []).append(heard)
        with contextlib.suppress(HoldfastError):
            self._on_thread(self._listen)
        return heard

    def say(self, names: Iterable[str]) -> None:
        """Notify listeners soon, without anyone waiting for it.

        In a transaction of its own that waits for no disk: with a notification in it, commits of the
        whole server happen one after the other.
        """
        with self._lock:
            first = not self._unsaid
            self._unsaid.update(names)
            if first and self._unsaid and self._loop is not None:
                self._loop.call_soon_threadsafe(self._work, self._say, new_outcome())

    def keep_listening(self) -> None:
        """Open the line for notifications again, if it broke."""
        listener = self._listener
        if listener is None or listener.is_closed():
            with contextlib.suppress(HoldfastError):
                self._on_thread(self._listen)

    def unlisten(self, name: str, heard: threading.Event) -> None:
        with self._lock:
            waiting = self._changed.get(name, [])
            with contextlib.suppress(ValueError):
                waiting.remove(heard)
            if not waiting:
                self._changed.pop(name, None)

    def close(self) -> None:
        """Close the connections and end the thread; waiters get Unavailable. It can be used again."""
        self._renew_after_fork()
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(self._work, self._hang_up, gone := new_outcome())
        gone.result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    # -- the thread --------------------------------------------------------------------------
    def _on_thread(self, work: Work[T]) -> T:
        self._renew_after_fork()
        outcome: Future[T] = new_outcome()
        try:
            with self._lock:
                try:
                    loop = self._started()
                except (RuntimeError, OSError) as error:
                    if isinstance(error, OSError):  # no descriptor is left for a loop
                        raise translated(error, "beginning to talk to PostgreSQL") from error
                    # The interpreter is about to end.
                    raise Unavailable(f"PostgreSQL cannot be reached any more: {error}") from error
                # Under the lock: what begins before a close is cancelled by it.
                loop.call_soon_threadsafe(self._work, work, outcome)
            return outcome.result()
        except CancelledError:
            raise Unavailable("the store was closed meanwhile", outcome="unknown") from None
        except BaseException:
            if not outcome.done():
                self._call_off(outcome)
            raise

    def _call_off(self, outcome: Future[Any]) -> None:
        """Cancel the work of an interrupted waiter: it must not be done after the waiter's next request."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._stop, outcome)
            with contextlib.suppress(Exception, CancelledError):
                outcome.result(_CALLED_OFF_S)

    def _work(self, work: Work[Any], outcome: Future[Any]) -> None:
        if not outcome.cancelled():
            task = self._tasks[outcome] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(partial(self._ended, outcome))

    def _ended(self, outcome: Future[Any], task: asyncio.Task[Any]) -> None:
        self._tasks.pop(outcome, None)
        if task.cancelled():
            outcome.cancel()
        elif (error := task.exception()) is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(task.result())

    def _stop(self, outcome: Future[Any]) -> None:
        task = self._tasks.get(outcome)
        if task is None:
            outcome.cancel()  # it must not begin
        else:
            task.cancel()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="holdfast-postgres", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                loop.close()
                raise
            self._slots = asyncio.Semaphore(self._options.connections)
            self._calling = asyncio.Lock()
            self._loop, self._thread = loop, thread
        return self._loop

    def _renew_after_fork(self) -> None:
        """In a forked child, drop the parent's thread and connections."""
        if self._forks != forks.count:
            self._forks = forks.count
            _abandoned.append((self._loop, self._idle, self._listener))
            self._lock = threading.Lock()
            self._loop = self._thread = self._slots = self._calling = self._listener = None
            self._idle, self._changed, self._tasks, self._unsaid = {}, {}, {}, set()

    # -- on the thread -----------------------------------------------------------------------
    async def tried(self, work: Callable[[Connection], Awaitable[T]], *, again: bool = True) -> T:
        """Do what ``run`` does, for callers on the thread of this link."""
        begun = time.monotonic()
        wait = _BACK_OFF_S
        unknown = False
        assert self._slots is not None
        while True:
            connection: Connection | None = None
            try:
                async with self._slots:
                    connection = await self._connection()
                    try:
                        return await self._worked(connection, work)
                    finally:
                        await self._give_back(connection)
            except HoldfastError:
                raise
            except Exception as error:
                # Whether the request may have been carried out: any other error rolls the transaction back.
                state = getattr(error, "sqlstate", None)
                unknown = unknown or (connection is not None and (state is None or str(state).startswith(_UNKNOWN)))
                moved = state == _READS_ONLY and len(self._dsns) > 1  # another host accepts writes now
                if moved and connection is not None:
                    connection.terminate()
                retriable = (moved or _is_retriable(error)) and (again or not unknown)
                # For a server that was never reached it is raised soon: the address may be wrong.
                first = not self._migrated and connection is None
                patience = min(self._options.retry_s, _FIRST_S if first else math.inf)
                if not retriable or time.monotonic() + wait > begun + patience:
                    hosts = len(self._dsns) if connection is None else 1
                    raise _typed(error, unknown=unknown, again=again, hosts=hosts) from error
            await asyncio.sleep(wait * (0.5 + random.random()))  # noqa: S311 - spreads the rush
            wait = min(wait * 2, _BACK_OFF_MAX_S)

    async def _connection(self) -> Connection:
        idle = self._idle.get(asyncio.get_running_loop(), [])
        while idle:
            connection = idle.pop()
            if not connection.is_closed():
                return connection
        connection = await self._connect()
        if not self._migrated:
            try:
                await self._worked(connection, lambda it: MIGRATIONS.run(it, self._options.schema))
            except BaseException:
                await connection.close(timeout=1)
                raise
            self._migrated = True
        return connection

    async def _worked(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Return the result of ``work``; behind a pooler in one transaction, which stays on one connection."""
        if not self.is_pooled:
            return await work(connection)
        async with connection.transaction():
            settings = self._options.settings.items()
            await connection.execute(";".join(f"SET LOCAL {name} TO {value}" for name, value in settings))
            return await work(connection)

    async def _connect(self) -> Connection:
        """Return a connection to the first suitable host; the last suitable one is tried first."""
        failed: list[Exception] = []
        for dsn in tuple(self._dsns):
            try:
                connection = await self._reach(dsn)
            except Exception as error:
                if isinstance(error, HoldfastError) or (hasattr(error, "sqlstate") and not _is_retriable(error)):
                    raise  # it answered: the others would answer the same
                failed.append(error)
            else:
                self._dsns.sort(key=lambda one: one != dsn)
                return connection
        raise next(filter(_is_retriable, failed), failed[-1])

    async def _reach(self, dsn: str) -> Connection:
        try:
            import asyncpg
        except ImportError as error:
            raise UsageError(
                "a PostgreSQL store needs asyncpg", remedy="Install it with: pip install 'holdfast[postgres]'"
            ) from error
        # The server gives up first: its error shows that nothing was stored.
        patience = self._options.statement_s + _ANSWER_S
        connect = partial(asyncpg.connect, dsn, timeout=self._options.connect_s, command_timeout=patience)
        if not self.is_pooled:
            try:
                connection = await connect(server_settings={"application_name": "holdfast", **self._options.settings})
                try:
                    await connection.execute(_IS_SERVER.format(connection.get_server_pid()))
                except BaseException:
                    connection.terminate()
                    raise
                return connection
            except asyncpg.PostgresError as error:
                if error.sqlstate != _IS_NOT and "unsupported startup parameter" not in str(error):
                    raise
                self.is_pooled = True
        return await connect(statement_cache_size=0)

    async def _give_back(self, connection: Connection) -> None:
        if connection.is_closed() or connection.is_in_transaction():
            with contextlib.suppress(Exception):
                connection.terminate()
            return
        self._idle.setdefault(asyncio.get_running_loop(), []).append(connection)

    async def _listen(self) -> None:
        assert self._calling is not None
        async with self._calling:
            if self.is_pooled or (self._listener is not None and not self._listener.is_closed()):
                return
            try:
                listener = await self._connect()
                try:
                    await listener.add_listener(_CHANNEL, self._hear)
                except BaseException:
                    listener.terminate()
                    raise
                self._listener = listener
            except HoldfastError:
                raise
            except Exception as error:
                raise _typed(error, unknown=False, again=True) from error

    async def _say(self) -> None:
        await asyncio.sleep(_SAY_AFTER_S)
        with self._lock:
            names, self._unsaid = sorted(self._unsaid), set()
        said = [",".join(names[at : at + _NAMES_AT_ONCE]) for at in range(0, len(names), _NAMES_AT_ONCE)]
        # A listener that misses it polls again after a moment anyway.
        with contextlib.suppress(HoldfastError):
            await self.tried(lambda connection: connection.execute(_NOTIFY, _CHANNEL, said), again=False)

    def _hear(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        with self._lock:
            for name in payload.split(","):
                for heard in self._changed.get(name, ()):
                    heard.set()

    async def _hang_up(self) -> None:
        loop = asyncio.get_running_loop()
        me = asyncio.current_task()
        others = [one for one in self._tasks.values() if one.get_loop() is loop and one is not me]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        idle = self._idle.pop(loop, [])
        for connection in [*idle, *([self._listener] if self._listener else [])]:
            with contextlib.suppress(Exception):
                await connection.close(timeout=2)
        self._listener = None
        with self._lock:
            self._unsaid.clear()  # it will not be sent: the next notification is the first


def _is_retriable(error: BaseException) -> bool:
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_AGAIN)
    if type(error).__name__ in ("InterfaceError", "InternalClientError", _NO_SUCH_HOST):
        return True
    if isinstance(error, (ssl.SSLError, socket.gaierror)):
        return False  # a certificate or a name is wrong, and stays wrong
    return isinstance(error, (OSError, asyncio.TimeoutError, EOFError))


def _typed(error: Exception, *, unknown: bool, again: bool, hosts: int = 1) -> HoldfastError:
    state = getattr(error, "sqlstate", None) or ""
    said = f"PostgreSQL: {str(error) or 'no answer in time'}"
    if type(error).__name__ == "ClientConfigurationError":
        if "root certificate" in said:
            return UsageError(said, remedy="Name the file of your authority: sslrootcert=…")
        return UsageError("PostgreSQL: the address or an option in it is wrong")
    if type(error).__name__ == _NO_SUCH_HOST:
        return Unavailable(
            "PostgreSQL: no host of the address is what target_session_attrs asks for",
            remedy="See which host is the primary, name it in the address, and open the session again.",
        )
    if isinstance(error, ssl.SSLError):
        return Unavailable(f"{said}: no secure connection", remedy="Check the certificates and sslmode.")
    if state.startswith(_FULL):
        return StoreFull(said)
    if state.startswith(_REFUSED):
        return Forbidden(said, remedy="Check user, password and rights of the role.")
    if not unknown:
        told = f"{said} (none of the {hosts} hosts takes a connection)" if hosts > 1 else said
        remedy = (
            "See what the server waits for (a lock, a standby), or raise statement_s." if state == _TOO_LONG else None
        )
        return Unavailable(told, remedy=remedy)
    remedy = "Open the session again: what was stored is there."
    told = said if again else f"{said}; whether it was stored is not known"
    return Unavailable(told, remedy=remedy, outcome="unknown")


# Connections of a parent process: kept open, since closing them here would end the parent's.
_abandoned: list[Any] = []

# The options in the address of a PostgreSQL store, beside the server's.
_FILES = {"sslrootcert", "sslcert", "sslkey", "sslcrl"}


class UrlOptions:
    """The options in the URL, beside the address of the server."""

    def __init__(self, values: dict[str, str]) -> None:
        self.schema = values.pop("schema", "holdfast")
        self.connections = _number(values, "connections", 4)
        self.connect_s = _number(values, "connect_s", 10)
        self.statement_s = _number(values, "statement_s", 60)
        self.retry_s = _number(values, "retry_s", 30)
        if not self.schema.replace("_", "a").isalnum() or not self.schema.isascii():
            raise UsageError(f"{self.schema!a} is no name for a schema: letters, digits and _")
        self.settings = {
            "search_path": f"{self.schema}, public",
            # Planning over all partitions costs more than the statements themselves.
            "plan_cache_mode": "force_generic_plan",
            # Without knowing the values every plan looks expensive enough to be compiled, which takes hundreds of times
            # longer than running it.
            "jit": "off",
            "statement_timeout": str(self.statement_s * 1000),
            "idle_in_transaction_session_timeout": str(self.statement_s * 1000),
        }


def read_options(url: str) -> tuple[list[str], UrlOptions]:
    """Return for each host the address in PostgreSQL's form, and our own options. Raises UsageError."""
    parts = urlsplit(url)
    user, at, places = parts.netloc.rpartition("@")
    hosts = places.split(",")
    try:
        for host in hosts:
            urlsplit(f"//{host}").port  # noqa: B018 - reading it is the check
    except ValueError:
        # Not shown: the text in place of a port is often a part of the password.
        raise UsageError(
            "the port in the address of the database is not a number",
            remedy="Write @, :, / and # in a user name or password as %40, %3A, %2F and %23.",
        ) from None
    values = dict(parse_qsl(parts.query, keep_blank_values=True))
    options = UrlOptions(values)
    for name in _FILES & values.keys():
        # Raised here: the library only says that some file is missing.
        if not os.path.isfile(values[name]):
            raise UsageError(f"{name} in the address: there is no file {values[name]}")
    if len(hosts) > 1:
        values.setdefault("target_session_attrs", "read-write")
    query = urlencode(values)
    return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}", query=query)) for host in hosts], options


def _number(values: dict[str, str], name: str, default: int) -> int:
    text = values.pop(name, str(default))
    if not text.isdecimal() or not int(text):
        raise UsageError(f"{name}={text[:40]!a} in the address must be a whole number above 0")
    return int(text)
