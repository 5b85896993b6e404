"""Check what an agent can actually do: every capability is tried, announced or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.apps.acp.client.config import ClientConfig, Requests
from holdfast.apps.acp.link import AgentLink
from holdfast.apps.render.words import counted
from holdfast.apps.wire import frames as rpc
from holdfast.apps.wire.frames import Frame, RpcError
from holdfast.apps.wire.pipes import AgentProcess
from holdfast.errors import AgentError

WORKS, REFUSED, FAILS, SILENT, DIED, UNTRIED = ("works", "refused", "fails", "no answer", "died", "not tried")
_VERBS = {REFUSED: "is refused", FAILS: "fails", SILENT: "is not answered", DIED: "ends it"}
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
    """The findings about an agent."""

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
        self._place: Frame = {"cwd": cwd, "mcpServers": []}
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

        async def nothing(_reason: str) -> None:
            """Do nothing: waiters learn of its death."""

        def count_noise(_line: bytes) -> None:
            self._noise += 1

        self._link = AgentLink(
            partial(AgentProcess.start, self.report.command, cwd=self._cwd),
            on_frame=self._hear,
            on_batch=self._serve,
            on_death=nothing,
            on_noise=count_noise,
        )
        begun = time.monotonic()
        try:
            try:
                await asyncio.wait_for(self._link.greet(self._requests.greeting()), self._timeout_s)
            except (RpcError, TimeoutError) as error:
                why = str(error) or f"no answer to initialize within {self._timeout_s:.0f} s"
                remedy = "Run its command by hand to see what it says."
                raise AgentError(f"the agent could not be asked: {why}", remedy=remedy) from error
            if not self.report.start_s:
                self.report.start_s = time.monotonic() - begun
                self.report.protocol_version = self._link.hello.get("protocolVersion")
                self.report.agent = rpc.object_in(self._link.hello, "agentInfo")
                said = {name for name in _OPTIONAL if self._link.advertises(name)} - {"load"} | {"new", "prompt"}
                said |= {"load"} if self._link.can.get("loadSession") else set()
                self._findings = {name: Capability(name, name in said) for name in ("new", "prompt", *_OPTIONAL)}
            await what()
        finally:
            begun = time.monotonic()
            await self._link.end()
            if time.monotonic() - begun > _ENDS_S:
                self._say("It does not end when its input ends, and has to be killed.")

    def _hear(self, frame: Frame) -> None:
        if "id" in frame:
            self._asked.append(frame)
        elif frame["method"] == "session/update":
            self._updates += 1

    async def _serve(self) -> None:
        """Answer the agent's requests: nothing is permitted, and no file is given."""
        asked, self._asked = self._asked, []
        for frame in asked:
            try:
                found = await self._requests.answer(frame["method"], frame.get("params"), asyncio.Event())
                self._link.send(rpc.response(frame["id"], found))
            except RpcError as error:
                self._link.send(rpc.error_frame(frame["id"], error))

    # -- what is tried -------------------------------------------------------------------------
    async def _first_look(self) -> None:
        self._session = rpc.text_in(await self._try("new", self._place), "sessionId")
        if not self._session:
            methods = self._link.hello.get("authMethods")
            if methods:
                names = [str(one.get("name") or one.get("id")) for one in rpc.objects_in(methods)]
                self._say(f"It may want a login first: it offers {', '.join(names) or 'none that has a name'}.")
            return
        here = {**self._place, "sessionId": self._session}
        if self._prompt is not None:
            blocks = [{"type": "text", "text": self._prompt}]
            answer = await self._try("prompt", {"sessionId": self._session, "prompt": blocks})
            if answer is not None:
                self._findings["prompt"].detail = str(answer.get("stopReason"))
        sessions = rpc.member(await self._try("list", {"cwd": self._cwd}), "sessions")
        if isinstance(sessions, list):
            self._findings["list"].detail = f"{len(sessions)} sessions"
        self._spare = rpc.text_in(await self._try("fork", here), "sessionId")
        await self._try("close", {"sessionId": self._spare or self._session})

    async def _resume(self) -> None:
        before = self._updates
        found = await self._try("resume", {**self._place, "sessionId": self._session})
        replayed = self._updates - before
        if found is not None and replayed > 0 and self._prompt is not None:
            self._say(f"It sends {counted(replayed, 'update')} with resume, which must not replay.")

    async def _load(self) -> None:
        before, finding = self._updates, self._findings["load"]
        found = await self._try("load", {**self._place, "sessionId": self._session})
        if found is not None:
            in_time = self._updates - before
            patience, seen = time.monotonic() + self._timeout_s, -1
            while seen != self._updates and time.monotonic() < patience:
                seen = self._updates
                await asyncio.sleep(self._quiet_s)
            late = self._updates - before - in_time
            finding.detail = counted(in_time + late, "update")
            if late:
                self._say(f"It answers load before it has replayed: {counted(late, 'update')} came later.")
            if not in_time + late and self._prompt is not None:
                finding.real, finding.detail = FAILS, "nothing of the conversation came back"
        spare = self._spare
        if not spare:
            try:
                made = await self._link.request("session/new", self._place, timeout_s=self._timeout_s)
                spare = rpc.text_in(made, "sessionId")
            except (RpcError, TimeoutError):
                return
        await self._try("delete", {"sessionId": spare})

    async def _try(self, name: str, params: Frame) -> Frame | None:
        """Return the result of a call; None if there is none, and then the finding says why."""
        finding = self._findings[name]
        try:
            found = await self._link.request(f"session/{name}", params, timeout_s=self._timeout_s)
        except RpcError as error:
            finding.real = REFUSED if error.code == rpc.METHOD_NOT_FOUND else FAILS
            if not self._link.alive:
                finding.real = DIED
            finding.detail = "" if finding.real == REFUSED else error.message
        except TimeoutError:
            finding.real, finding.detail = SILENT, f"within {self._timeout_s:.0f} s"
        else:
            finding.real = WORKS
            return rpc.object_in(found)
        return None

    # -- what it means -------------------------------------------------------------------------
    def _say(self, sentence: str) -> None:
        if sentence not in self._says:
            self._says.append(sentence)

    def _verdicts(self) -> list[str]:
        lines = []
        for finding in self.report.findings:
            name, real = finding.name, finding.real
            if name not in _OPTIONAL or real == UNTRIED:
                continue
            if finding.advertised and real != WORKS:
                why = f": {finding.detail}" if finding.detail else ""
                lines.append(f"It announces {name}, and {name} {_VERBS[real]}{why}.")
            elif not finding.advertised and real == WORKS:
                lines.append(f"It does {name} without announcing it.")
        lines += self._says
        if self._noise:
            lines.append(f"It prints {self._noise} lines that are no frames on its output.")
        able = [name for name in ("resume", "load") if self._session and self._findings[name].real == WORKS]
        if not self._session:
            lines.append("It makes no session, so nothing else could be tried.")
        elif self._prompt is None:
            lines.append("No prompt was sent: whether a conversation survives is not known. Try --prompt.")
        elif able:
            lines.append(f"It goes on with earlier sessions by {able[0]}.")
        else:
            lines.append("It cannot go on with earlier sessions; `holdfast acp proxy` does that for it.")
        return lines
