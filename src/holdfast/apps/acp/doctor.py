"""What an agent really can do: everything it announces is tried, and what it does not announce."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.apps.acp.client.config import ClientConfig, Requests
from holdfast.apps.acp.link import AgentLink
from holdfast.apps.render.words import counted
from holdfast.apps.wire.frames import METHOD_NOT_FOUND, Frame, RpcError, error_frame, response
from holdfast.apps.wire.pipes import AgentProcess
from holdfast.errors import AgentError
from holdfast.model import VERSION

WORKS, REFUSED, FAILS, SILENT, DIED, UNTRIED = ("works", "refused", "fails", "no answer", "died", "not tried")
_ENDS_S = 1.9
_OPTIONAL = ("list", "load", "resume", "fork", "close", "delete")


class Capability(msgspec.Struct):
    """One thing that an agent may be able to do."""

    name: str
    advertised: bool = False
    real: str = UNTRIED
    """works, refused (no such method), fails, no answer, died, not tried"""
    detail: str = ""


class Examination(msgspec.Struct):
    """What was found."""

    command: list[str]
    agent: dict[str, Any] = {}
    protocol_version: Any = None
    start_s: float = 0.0
    findings: list[Capability] = []
    verdicts: list[str] = []


async def examine(
    command: Sequence[str], *, cwd: str, prompt: str | None = None, timeout_s: float = 20.0, quiet_s: float = 0.5
) -> Examination:
    """Start an agent a few times and try what it can do, in sessions of its own.

    The model is not called unless there is a ``prompt``. Raises AgentError if it cannot be started
    or does not answer ``initialize``.
    """
    return await _Doctor(list(command), cwd, prompt, timeout_s, quiet_s).examine()


class _Doctor:
    def __init__(self, command: list[str], cwd: str, prompt: str | None, timeout_s: float, quiet_s: float) -> None:
        self._cwd = cwd
        self._prompt = prompt
        self._timeout_s = timeout_s
        self._quiet_s = quiet_s
        self._requests = Requests(ClientConfig())
        self.report = Examination(command)
        self._findings: dict[str, Capability] = {}
        self._updates = 0
        self._noise = 0
        self._asked: list[Frame] = []
        self._link: AgentLink
        self._session = ""
        self._spare = ""
        self._says: list[str] = []

    async def examine(self) -> Examination:
        await self._look(self._first_look)
        if self._session:
            await self._look(self._resume)
            await self._look(self._load)
        self.report.findings = list(self._findings.values())
        self.report.verdicts = self._verdicts()
        return self.report

    # -- one process after the other -----------------------------------------------------------

    async def _look(self, what: Any) -> None:
        """Start the agent, do something with it, and end it."""
        self._link = AgentLink(
            self._launch, on_frame=self._hear, on_batch=self._serve, on_death=_mourn, on_noise=self._count_noise
        )
        begun = time.monotonic()
        try:
            await self._greet()
            if not self.report.start_s:
                self._note_start(time.monotonic() - begun)
            await what()
        finally:
            begun = time.monotonic()
            await self._link.end()
            if time.monotonic() - begun > _ENDS_S:
                self._say("It does not end when its input ends, and has to be killed.")

    async def _launch(self) -> AgentProcess:
        return await AgentProcess.start(self.report.command, cwd=self._cwd)

    async def _greet(self) -> None:
        params = {
            "protocolVersion": 1,
            "clientCapabilities": self._requests.capabilities(),
            "clientInfo": {"name": "holdfast", "version": VERSION},
        }
        try:
            await asyncio.wait_for(self._link.greet(params), self._timeout_s)
        except (RpcError, TimeoutError) as error:
            why = str(error) or f"no answer to initialize within {self._timeout_s:.0f} s"
            raise AgentError(
                f"the agent could not be asked: {why}", remedy="Run its command by hand to see what it says."
            ) from error

    def _note_start(self, seconds: float) -> None:
        self.report.start_s = seconds
        self.report.protocol_version = self._link.hello.get("protocolVersion")
        info = self._link.hello.get("agentInfo")
        self.report.agent = info if isinstance(info, dict) else {}
        for name in ("new", "prompt", *_OPTIONAL):
            said = name in ("new", "prompt") or self._link.advertises(name)
            if name == "load":
                said = bool(self._link.can.get("loadSession"))
            self._findings[name] = Capability(name, said)

    def _hear(self, frame: Frame) -> None:
        if "id" in frame:
            self._asked.append(frame)
        elif frame["method"] == "session/update":
            self._updates += 1

    def _count_noise(self, _line: bytes) -> None:
        self._noise += 1

    async def _serve(self) -> None:
        """Nothing is permitted, and no file is given."""
        asked, self._asked = self._asked, []
        for frame in asked:
            try:
                found = await self._requests.answer(frame["method"], frame.get("params"), asyncio.Event())
                self._link.send(response(frame["id"], found))
            except RpcError as error:
                self._link.send(error_frame(frame["id"], error))

    # -- what is tried -------------------------------------------------------------------------

    async def _first_look(self) -> None:
        made = await self._try("new", "session/new", self._place())
        self._session = _session_id(made)
        if not self._session:
            methods = self._link.hello.get("authMethods")
            if methods:
                self._say(f"It may want a login first: it offers {_names(methods)}.")
            return
        if self._prompt is not None:
            blocks = [{"type": "text", "text": self._prompt}]
            answer = await self._try("prompt", "session/prompt", {"sessionId": self._session, "prompt": blocks})
            if answer is not None:
                self._findings["prompt"].detail = str(answer.get("stopReason"))
        await self._list()
        forked = await self._try("fork", "session/fork", self._place(self._session))
        self._spare = _session_id(forked)
        await self._try("close", "session/close", {"sessionId": self._spare or self._session})

    async def _list(self) -> None:
        found = await self._try("list", "session/list", {"cwd": self._cwd})
        sessions = found.get("sessions") if found is not None else None
        if isinstance(sessions, list):
            self._findings["list"].detail = f"{len(sessions)} sessions"

    async def _resume(self) -> None:
        before = self._updates
        if await self._try("resume", "session/resume", self._place(self._session)) is None:
            return
        replayed = self._updates - before
        if replayed > 0 and self._prompt is not None:
            self._say(f"It sends {counted(replayed, 'update')} with resume, which must not replay.")

    async def _load(self) -> None:
        before = self._updates
        found = await self._try("load", "session/load", self._place(self._session))
        if found is not None:
            in_time = self._updates - before
            await self._be_quiet()
            late = self._updates - before - in_time
            self._findings["load"].detail = counted(in_time + late, "update")
            if late:
                self._say(f"It answers load before it has replayed: {counted(late, 'update')} came later.")
            if not in_time + late and self._prompt is not None:
                self._findings["load"].real = FAILS
                self._findings["load"].detail = "nothing of the conversation came back"
        await self._delete()

    async def _delete(self) -> None:
        spare = self._spare
        if not spare:
            try:
                made = await self._link.request("session/new", self._place(), timeout_s=self._timeout_s)
                spare = _session_id(made if isinstance(made, dict) else None)
            except (RpcError, TimeoutError):
                return
        await self._try("delete", "session/delete", {"sessionId": spare})

    async def _try(self, name: str, method: str, params: Frame) -> Frame | None:
        """The result of a call; None if there is none, and then the finding says why."""
        finding = self._findings[name]
        try:
            found = await self._link.request(method, params, timeout_s=self._timeout_s)
        except RpcError as error:
            finding.real = REFUSED if error.code == METHOD_NOT_FOUND else FAILS
            if not self._link.alive:
                finding.real = DIED
            finding.detail = "" if finding.real == REFUSED else error.message
        except TimeoutError:
            finding.real, finding.detail = SILENT, f"within {self._timeout_s:.0f} s"
        else:
            finding.real = WORKS
            return found if isinstance(found, dict) else {}
        return None

    async def _be_quiet(self) -> None:
        patience = time.monotonic() + self._timeout_s
        seen = -1
        while seen != self._updates and time.monotonic() < patience:
            seen = self._updates
            await asyncio.sleep(self._quiet_s)

    def _place(self, session_id: str | None = None) -> Frame:
        place: Frame = {"cwd": self._cwd, "mcpServers": []}
        return place if session_id is None else {**place, "sessionId": session_id}

    # -- what it means -------------------------------------------------------------------------

    def _say(self, sentence: str) -> None:
        if sentence not in self._says:
            self._says.append(sentence)

    def _verdicts(self) -> list[str]:
        found = self._findings
        lines = []
        for name in _OPTIONAL:
            finding = found[name]
            if finding.real == UNTRIED:
                continue
            if finding.advertised and finding.real != WORKS:
                why = f": {finding.detail}" if finding.detail else ""
                lines.append(f"It announces {name}, and {name} {_verb(finding.real)}{why}.")
            elif not finding.advertised and finding.real == WORKS:
                lines.append(f"It does {name} without announcing it.")
        lines += self._says
        if self._noise:
            lines.append(f"It prints {self._noise} lines that are no frames on its output.")
        return lines + self._conclusion()

    def _conclusion(self) -> list[str]:
        if not self._session:
            return ["It makes no session, so nothing else could be tried."]
        if self._prompt is None:
            return ["No prompt was sent: whether a conversation survives is not known. Try --prompt."]
        able = [name for name in ("resume", "load") if self._findings[name].real == WORKS]
        if able:
            return [f"It goes on with earlier sessions by {able[0]}."]
        return ["It cannot go on with earlier sessions; `holdfast acp proxy` does that for it."]


async def _mourn(_reason: str) -> None:
    """Whoever asked is told."""


def _verb(real: str) -> str:
    return {REFUSED: "is refused", FAILS: "fails", SILENT: "is not answered", DIED: "ends it"}[real]


def _session_id(answer: Frame | None) -> str:
    found = (answer or {}).get("sessionId")
    return found if isinstance(found, str) else ""


def _names(methods: Any) -> str:
    known = methods if isinstance(methods, list) else []
    names = [str(one.get("name") or one.get("id")) for one in known if isinstance(one, dict)]
    return ", ".join(names) or "none that has a name"
