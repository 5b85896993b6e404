"""The inbox over HTTP: what sessions wait for, answers to it, tokens for outsiders, and what wakes sessions."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from typing import TYPE_CHECKING

from holdfast.agent import HostedTurn, Wakes
from holdfast.apps.http._call import Call, Refused
from holdfast.errors import HoldfastError, Locked, UsageError
from holdfast.library import Holdfast
from holdfast.library.answers.sessions import AnswerToken, OpenQuestions, Signalled
from holdfast.session import Answer

if TYPE_CHECKING:
    from holdfast.apps.http._service import Service

_OUTSIDE = "shared/outside"  # which space a token for somebody outside is of, by its digest
_WAKER, _WAKER_MS = "shared/waker", 10_000
_LOOK_S = 3.0
_log = logging.getLogger("holdfast.http")


def list_waiting(call: Call) -> OpenQuestions:
    """Return the questions that are open, the oldest first."""
    return OpenQuestions(waiting=call.hf.waiting(call.query.agent, call.query.session))


async def answer_question(call: Call) -> Answer:
    """Answer a question durably; the session goes on by itself if its agent is here."""
    assert call.token is not None
    ask, said = call.request.path_params["ask"], call.body
    threads = call.service.threads
    found = await threads.run(call.hf.inbox.session_of, ask)
    who = {"by": call.token.who, "via": "http", "because": said.because, "scope": said.scope}
    counts = await threads.run(lambda: call.hf.answer(ask, said.given, session_id=found, **who))
    await call.service.turns.wake(call.space, found)
    return counts


def make_token(call: Call) -> AnswerToken:
    """Return a token by which somebody outside answers one question, without being let in."""
    wish = call.body
    token = call.hf.inbox.token(call.request.path_params["ask"], wish.holder, wish.expires_in_ms)
    call.service.hf.store.documents(_OUTSIDE).put(_digest(token), call.space.encode())
    return AnswerToken(token=token)


def revoke_token(call: Call) -> None:
    """Let a token answer nothing any more."""
    call.hf.inbox.revoke_token(call.body.token)  # first: only who has the question in their space may
    call.service.hf.store.documents(_OUTSIDE).delete(_digest(call.body.token))


async def answer_outside(call: Call) -> Answer:
    """Return an answer by somebody who has nothing but the token of one question."""
    service, said = call.service, call.body
    found = await service.threads.run(service.hf.store.documents(_OUTSIDE).get, _digest(said.token))
    if found is None:
        service.count_guess(call.request)
        raise UsageError("this token answers no question")
    space = found[0].decode()
    async with service.spaces.use(space) as hf:
        told = await service.threads.run(hf.inbox.answer_by_token, said.token, said.given, said.because)
        session_id = await service.threads.run(hf.inbox.session_of, told.id)
        await service.turns.wake(space, session_id)
    return told


async def signal(call: Call) -> Signalled:
    """Tell the calls that wait for an event that it came; a webhook posts here."""
    assert call.token is not None
    event, by = call.request.path_params["event"], call.token.who
    told = await call.service.threads.run(lambda: call.hf.inbox.signal(event, call.body.value, by=by))
    for id in told:
        await call.service.turns.wake(call.space, id)
    return Signalled(sessions=told)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Waker:
    """Continues sessions that were answered anywhere or are due; one server polls at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._wakes = Wakes()
        self._task: asyncio.Task[None] | None = None
        self._woken: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to look, if there is an agent that could go on."""
        if self._service.turns.can_answer:
            self._task = asyncio.ensure_future(self._look_on())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task, *self._woken])

    async def _look_on(self) -> None:
        while True:
            try:
                tokens = await self._service.threads.run(self._service.tokens.all)
                for space in sorted({token.space for token in tokens if token.space}):
                    await self._look(space)
            except (HoldfastError, Refused):
                _log.warning("the spaces could not be looked at", exc_info=True)
            await asyncio.sleep(_LOOK_S)

    async def _look(self, space: str) -> None:
        """Begin a turn on every session of a space that is due; what is wrong with one space stops no other."""
        service = self._service
        try:
            async with service.spaces.use(space) as hf:
                for id in await service.threads.run(self._due, hf, space):
                    # Not waited for: a long turn keeps no other session waiting.
                    if (turn := await service.turns.wake(space, id)) is not None:
                        task = asyncio.ensure_future(self._note((space, id), turn))
                        self._woken.add(task)
                        task.add_done_callback(self._woken.discard)
        except (HoldfastError, Refused):
            _log.warning("what is due in space %s could not be looked for", space, exc_info=True)

    async def _note(self, key: tuple[str, str], turn: HostedTurn) -> None:
        await turn.wait()
        self._wakes.note(key, failed=turn.error is not None)

    def _due(self, hf: Holdfast, space: str) -> list[str]:
        # Another server is at it; what it leaves is found the next time.
        with contextlib.suppress(Locked), hf.store.lease(_WAKER).held("waker", _WAKER_MS):
            return [id for id in self._service.turns.due(hf, space) if self._wakes.is_time((space, id))]
        return []
