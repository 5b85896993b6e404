"""Permission to use tools: lists, standing approvals that expire, and a person to ask."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.agent._context import Suspend
from holdfast.agent._options import SCOPES, SUSPEND, Scope
from holdfast.agent._tools import Tool
from holdfast.errors import UsageError
from holdfast.replay import Approval
from holdfast.session import PERMISSIONS, ApprovalsDocument, Session, now_ms, read_or_begin, swap
from holdfast.storage import Documents


class PermissionRequest(msgspec.Struct, frozen=True):
    """The argument of the prompt callback. ``expired`` if an earlier approval has run out."""

    tool: str
    args: dict[str, Any]
    description: str
    session_id: str
    agent: str
    expired: bool = False
    call_id: str = ""
    """The id of the call in the log, if it is made."""


class Decision(msgspec.Struct, frozen=True):
    """A person's decision. ``same_args`` limits an approval to the very same arguments."""

    allow: bool
    scope: Scope = "once"
    expires_in_ms: int | None = None
    same_args: bool = False
    reason: str | None = None
    approved_by: str = "user"

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise UsageError(f"scope {self.scope!r} is none of {', '.join(SCOPES)}")


class Verdict(msgspec.Struct, frozen=True):
    """The decision on a call: allowed, refused with a reason for the model, or to be asked of a person."""

    allowed: bool
    reason: str = ""
    asks: bool = False
    expired: bool = False
    wish: Suspend | None = None
    """The tool's wish to wait for an answer, if it has one."""


class StandingApprovals:
    """Approvals for always: ``permissions.json`` of the agent, changed by compare-and-swap."""

    def __init__(self, documents: Documents, tell: Callable[[str], None]) -> None:
        self._documents = documents
        self._tell = tell

    def read(self) -> dict[str, Approval]:
        return self._load()[0].approvals

    def add(self, tool: str, approval: Approval) -> None:
        # Compare-and-swap: another process of the same agent may record an approval meanwhile.
        swap(self._documents, PERMISSIONS, self._load, lambda document: document.approvals.update({tool: approval}))

    def _load(self) -> tuple[ApprovalsDocument, str]:
        # A damaged document approves nothing: asking again is the safe way.
        return read_or_begin(self._documents, PERMISSIONS, ApprovalsDocument, self._tell)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Decides about each call, asks if it must, and records a decision before it counts."""

    session: Session
    agent: str
    prompt: Callable[[PermissionRequest], Any] | Suspend | str | None
    standing: StandingApprovals | None
    enabled: bool = True
    can_wait: bool = True
    """True if the session can be continued later."""
    clock: Callable[[], int] = now_ms

    def check(self, tool: Tool, args: dict[str, Any]) -> Verdict:
        """Return the verdict on a call without asking anybody."""
        if not self.enabled:
            return Verdict(True)
        known = self.session.live_state.permissions
        # The blocklist overrides every approval, of whatever scope.
        if tool.name in known.blocklist:
            return Verdict(False, f"the tool {tool.name} is blocked")
        if not tool.needs_permission or tool.name in known.allowlist:
            return Verdict(True)
        # Approvals for this session, and for always.
        always = {} if self.standing is None else self.standing.read()
        given = [one for one in (known.approvals.get(tool.name), always.get(tool.name)) if one is not None]
        fitting = [one for one in given if one.args_hash is None or one.args_hash == args_digest(args)]
        if any(one.expires_at is None or one.expires_at > self.clock() for one in fitting):
            return Verdict(True)
        if tool.permission is None and self.prompt is None:
            return Verdict(False, f"the tool {tool.name} needs permission, and nobody is here to give it")
        return Verdict(False, asks=True, expired=bool(fitting))

    def is_approved(self, tool: Tool, args: dict[str, Any]) -> bool:
        """Return whether a call that needs permission has it already."""
        return self.enabled and tool.needs_permission and self.check(tool, args).allowed

    async def ask(self, tool: Tool, args: dict[str, Any], call_id: str, *, expired: bool) -> Verdict:
        """Ask about a recorded call; the decision is on the medium when this returns."""
        prompt = self.prompt if tool.permission is None else tool.permission
        request = PermissionRequest(tool.name, args, tool.description, self.session.id, self.agent, expired, call_id)
        try:
            answer = prompt(request) if callable(prompt) else prompt
            if inspect.isawaitable(answer):
                answer = await answer
        except Suspend as wish:
            answer = wish
        if answer == SUSPEND:
            answer = _suspend_as_configured()
        if isinstance(answer, Suspend):
            if answer.until is not None or answer.event is not None:
                raise UsageError(
                    f"the permission for {tool.name} waits for a person, not for a time or an event",
                    remedy="Raise Suspend(until=…) or Suspend(event=…) in the tool.",
                )
            if self.can_wait:
                return Verdict(False, wish=answer)
            return Verdict(False, f"the tool {tool.name} needs permission, and only a run on a session can wait for it")
        decision = _decision(answer)
        # On the medium before the tool runs, as proof that it was allowed.
        self._record(tool.name, args, call_id, decision)
        await self.session.abarrier()
        if decision.allow:
            return Verdict(True)
        return Verdict(False, decision.reason or f"the user did not allow {tool.name}")

    def allow_always(self, tool: str, by: str) -> None:
        """Keep an approval with the scope always."""
        if self.standing is not None:
            by = self._without_secrets(by)
            self.standing.add(tool, Approval(scope="always", approved_at=self.clock(), approved_by=by))

    def _without_secrets(self, name: str) -> str:
        return str(self.session.redacted({"by": name})["by"])

    def _record(self, tool: str, args: dict[str, Any], call_id: str, decision: Decision) -> None:
        now = self.clock()
        lasts = decision.expires_in_ms
        approval = Approval(
            scope=decision.scope,
            approved_at=now,
            approved_by=self._without_secrets(decision.approved_by),
            expires_at=None if lasts is None else now + lasts,
            args_hash=args_digest(args) if decision.same_args else None,
        )
        data = {
            "tool": tool,
            "call": call_id or None,
            "decision": "allow" if decision.allow else "deny",
            "scope": decision.scope,
            "approved_by": decision.approved_by,
            "expires_at": approval.expires_at,
            "args_hash": approval.args_hash,
            "reason": decision.reason,
        }
        self.session.append("permission", {k: v for k, v in data.items() if v is not None})
        if decision.allow and decision.scope == "always" and self.standing is not None:
            self.standing.add(tool, approval)


def _suspend_as_configured() -> Suspend:
    from holdfast._config import configuration

    settings = configuration()
    expires_in_ms = settings.get("approvals.expire_ms", 0) or None
    return Suspend(expires_in_ms=expires_in_ms, on_expiry=settings.get("approvals.on_expiry", "deny"))


def _decision(answer: Any) -> Decision:
    """Return the meaning of the callback's value: a Decision, a bool, a scope, or "deny"."""
    if isinstance(answer, Decision):
        return answer
    if isinstance(answer, bool) or answer is None:
        return Decision(bool(answer))
    if answer in SCOPES:
        return Decision(True, scope=answer)
    if answer in ("deny", "denied", "no"):
        return Decision(False)
    raise UsageError(
        f"the permission callback answered {answer!r}",
        remedy="Answer with True, False, 'once', 'session', 'always', 'deny', a Decision or Suspend().",
    )


def args_digest(args: dict[str, Any]) -> str:
    """Return a digest by which the same arguments are recognised."""
    canonical = msgspec.json.encode(args, enc_hook=str, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:32]
