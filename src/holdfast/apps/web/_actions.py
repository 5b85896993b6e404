"""Actions of people on sessions. Each is a form that one of our own pages sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from holdfast.agent import Host, HostedTurn
from holdfast.apps.render.words import counted
from holdfast.apps.web._page import Note, back_to, guest_of, session_url, site_of
from holdfast.errors import Forbidden, HoldfastError, NotFound, UsageError
from holdfast.session import Session

if TYPE_CHECKING:
    from holdfast.agent import Agent, Kit
    from holdfast.apps.web._page import Site
    from holdfast.library import Holdfast

Form = Mapping[str, str]
_FIELDS_MAX = 40


async def form_of(request: Request) -> Form:
    """Return the fields of a form. Raises Forbidden without the token of its page, UsageError."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError:
        raise UsageError("no form of ours has so many fields") from None
    # Cookies come along with a form of any page; this token is on our own pages only.
    given = request.headers.get("x-form-token") or fields.get("form_token", "")
    if not guest_of(request).sent(given):
        remedy = "Load the page again, then repeat what you did."
        raise Forbidden("this form is not from a page that was shown to you", remedy=remedy)
    return fields


async def act(request: Request) -> Response:
    """Return one of ``DEEDS`` on a session; then the page that shows what came of it."""
    form = await form_of(request)
    id, name = str(request.path_params["id"]), str(request.path_params["deed"])
    deed = DEEDS.get(name)
    if deed is None:
        raise NotFound(f"nothing is called {name[:40]!a} here")
    site = site_of(request)
    try:
        # Before the deed and not in it: to give a session back is for the event loop.
        if name in _NEED_REST:
            await site.talks.release(id)
        note, url = await asyncio.to_thread(deed, site, id, form)
    except HoldfastError as error:
        # On the page where it was asked for, so that it can be tried again.
        note, url = Note.of(error), came_from(form, session_url(id))
    guest_of(request).tell(note)
    return back_to(url)


async def merge(request: Request) -> Response:
    """Merge two sessions into a new one."""
    form = await form_of(request)
    hf = site_of(request).hf
    made = await asyncio.to_thread(
        hf.merge,
        form.get("a", ""),
        form.get("b", ""),
        turns="summary" if form.get("turns") == "summary" else "all",
        policy=form.get("policy", "ours"),
        title=form.get("title", "").strip() or None,
    )
    report = await asyncio.to_thread(hf.merge_report, made)
    clashes = len(report.conflicts) if report else 0
    told = f"; {counted(clashes, 'conflict')} decided by your policy" if clashes else ""
    guest_of(request).tell(Note(f"Merged into this new session{told}."))
    return back_to(session_url(made))


async def undelete(request: Request) -> Response:
    """Restore a session from the trash."""
    form = await form_of(request)
    id = form.get("id", "")
    await asyncio.to_thread(site_of(request).hf.undelete, id)
    guest_of(request).tell(Note("It is back."))
    return back_to(session_url(id))


async def invite(request: Request) -> Response:
    """Return a link that lets another browser of this machine in, once."""
    await form_of(request)
    token = site_of(request).door.link()
    url = f"{request.url.scheme}://{request.url.netloc}/in?token={token}"
    guest_of(request).tell(Note(f"Open this in another browser; it works once: {url}"))
    return back_to("/store")


async def begin(request: Request) -> Response:
    """Return a new session with an agent."""
    form = await form_of(request)
    made = await site_of(request).talks.begin(_words(form))
    return back_to(session_url(made))


async def talk(request: Request) -> Response:
    """Say something on a session, let it go on, or stop its answer."""
    form, talks, id = await form_of(request), site_of(request).talks, str(request.path_params["id"])
    match request.url.path.rpartition("/")[2]:
        case "say":
            await talks.say(id, _words(form), interrupt="interrupt" in form)
        case "continue":
            await talks.go_on(id)
        case "stop":
            talks.stop(id)
    # Nothing for a script, which follows the session; the page again for a plain form.
    return Response(status_code=204) if "x-form-token" in request.headers else back_to(session_url(id))


def _words(form: Form) -> str:
    text = form.get("text", "").replace("\r\n", "\n").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text.encode("utf-8", "replace").decode()


def came_from(form: Form, otherwise: str) -> str:
    """Return the page that a form was on; only ever one of ours."""
    url = form.get("back", "")
    # A browser takes both // and /\ for the beginning of another host.
    is_ours = url.startswith("/") and not url.startswith(("//", "/\\"))
    return url if is_ours else otherwise


# Deeds: in a thread.
Done = tuple[Note, str]


def _tag(site: Site, id: str, form: Form) -> Done:
    tags = [tag.strip() for tag in form.get("tags", "").split(",") if tag.strip()]
    if not tags:
        raise UsageError("no tag was given", remedy="Write one or more, with commas between.")
    site.hf.tag(id, *tags)
    return Note(f"Tagged {', '.join(tags)}."), came_from(form, session_url(id))


def _plain(do: Callable[[Holdfast, str, Form], object], told: str) -> Callable[[Site, str, Form], Done]:
    """Return the action that only calls the library."""

    def deed(site: Site, id: str, form: Form) -> Done:
        do(site.hf, id, form)
        return Note(told), came_from(form, session_url(id))

    return deed


def _delete(site: Site, id: str, _: Form) -> Done:
    title = site.hf.info(id).title or id
    site.hf.delete(id)
    return Note(f"Deleted “{title[:80]}”.", undo=id), "/"


def _fork(site: Site, id: str, form: Form) -> Done:
    made = site.hf.fork(id, _at(form), title=form.get("title", "").strip() or None)
    return Note("This is the fork; the session it came from stays as it was."), session_url(made)


def _restore(site: Site, id: str, form: Form) -> Done:
    at = _at(form)
    if at is None:
        raise UsageError("no event was given", remedy="Choose the moment to go back to.")
    made = site.hf.restore(id, at)
    return Note(f"Back at event {at}, as a new session that its agent goes on with."), session_url(made)


def _repair(site: Site, id: str, _: Form) -> Done:
    told = "There was nothing to repair."
    if gaps := site.hf.repair(id):
        lost = counted(sum(gap.last_seq - gap.first_seq + 1 for gap in gaps), "event")
        told = f"Repaired: {lost} could not be saved; all others are whole. The damaged bytes are kept in quarantine."
    return Note(told), session_url(id, "health")


def _at(form: Form) -> int | None:
    given = form.get("at", "").strip()
    if not given:
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 16:
        raise UsageError(f"{given[:20]!a} is no number of an event")
    return int(given)


DEEDS: dict[str, Callable[[Site, str, Form], Done]] = {
    "title": _plain(lambda hf, key, form: hf.title(key, form.get("title", "").strip()), "Renamed."),
    "tag": _tag,
    "untag": _plain(lambda hf, key, form: hf.untag(key, form.get("tag", "")), "Tag removed."),
    "pin": _plain(lambda hf, key, _: hf.policies.pin(key), "Pinned: no policy lets it go."),
    "unpin": _plain(lambda hf, key, _: hf.policies.unpin(key), "Not pinned any more."),
    "archive": _plain(lambda hf, key, _: hf.archive(key), "Archived: compressed, and readable as before."),
    "unarchive": _plain(lambda hf, key, _: hf.unarchive(key), "Taken out of the archive."),
    "delete": _delete,
    "fork": _fork,
    "restore": _restore,
    "repair": _repair,
}
# These are refused while anyone has the session open, and this app may be the one.
_NEED_REST = ("archive", "unarchive", "delete", "repair")

# Talking on sessions: answers run beside the pages, and go on when a page is left.
#
# What is said is recorded piece by piece, so pages see it as they see any session that is written.
_REST_MS = 60_000  # how long after an answer the session is released, for other writers


class Talks:
    """The agents of this app, by session; all but ``is_running`` is for the server's loop. Makes its kit once."""

    def __init__(self, hf: Holdfast, make_kit: Callable[[], Kit]) -> None:
        self._hf = hf
        self._make_kit = make_kit
        self._kit: Kit | None = None
        self._host: Host[str, Session] = Host(idle_ms=_REST_MS)
        self._newest: dict[str, HostedTurn] = {}
        self._root = os.getcwd()

    def is_running(self, session_id: str) -> bool:
        """Return whether an answer of that session is in progress."""
        return self._host.turn(session_id) is not None

    def has_talked(self, session_id: str) -> bool:
        """Return whether an answer of that session was started here."""
        return session_id in self._newest

    def trouble(self, session_id: str) -> str:
        """Return the reason why the last answer failed, if it did."""
        error = self._error(session_id)
        if error is None:
            return ""
        if isinstance(error, HoldfastError):
            return f"{error.message}. {error.remedy}"
        return str(error)[:500] or type(error).__name__

    def remedy(self, session_id: str) -> str:
        """Return the remedy for the failure of the last answer, if it is known."""
        error = self._error(session_id)
        return error.remedy if isinstance(error, HoldfastError) else ""

    def _error(self, session_id: str) -> BaseException | None:
        turn = self._newest.get(session_id)
        return None if turn is None else turn.error

    async def begin(self, text: str) -> str:
        """Return a new session with a first message; its id. Raises as ``say``."""
        kit = await self._ready()
        session = await asyncio.to_thread(kit.open_session, self._hf, None)
        self._host.keep(session.id, session)
        # It must be there before anyone looks at it.
        await asyncio.to_thread(session.append, "metadata", {"begun_by": "web"})
        await self.say(session.id, text)
        return session.id

    async def say(self, session_id: str, text: str, *, interrupt: bool = False) -> None:
        """Give a message to the agent of a session; one that works hears it before its next step.

        With ``interrupt`` the step under way is stopped for it. Raises UsageError, NotFound, Locked.
        """
        if not text.strip():
            raise UsageError("the message is empty", remedy="Write something first.")
        if (turn := self._host.turn(session_id)) is not None:
            try:
                await turn.steer(text, interrupt=interrupt)
                return
            except UsageError:  # it has said its last word: the next turn hears it
                await turn.wait()
        await self._start(session_id, text)

    async def go_on(self, session_id: str) -> None:
        """Let the agent go on with an answer that was interrupted or failed. Raises as ``say``."""
        await self._start(session_id, None)

    async def wake(self, session_id: str) -> bool:
        """Go on with a session whose questions are answered, if its calls are of tools that are here; whether it does.

        A session of another agent is left to it, and one that another process has open.
        """
        if self.is_running(session_id):
            return True  # it looks for answers before it ends
        try:
            kit = await self._ready()
            due = await asyncio.to_thread(self._hf.inbox.due, None, self._tools(kit), session_id)
            if due:
                await self._start(session_id, None)
        except HoldfastError:
            return False
        return bool(due)

    async def _start(self, session_id: str, text: str | None) -> None:
        kit = await self._ready()
        self._check_rests(session_id)
        # Here and not in the turn: a failure to open is reported to the sender of the message.
        async with self._host.ause(session_id, partial(kit.open_session, self._hf, session_id)) as session:
            # Loading a model may take seconds, and reads files.
            agent = await asyncio.to_thread(self._agent, kit, session)
            self._newest[session_id] = self._host.begin(
                session_id, lambda turn: self._answer(turn, agent, session, text)
            )

    def stop(self, session_id: str) -> None:
        """End an answer, if there is one; what was said is kept."""
        if turn := self._host.turn(session_id):
            turn.cancel()

    async def release(self, session_id: str) -> None:
        """Give a session back, so that it can be deleted or moved. Raises UsageError while busy."""
        self._check_rests(session_id)
        self._newest.pop(session_id, None)
        await asyncio.to_thread(self._host.let_go, session_id)

    async def close(self) -> None:
        """Put every answer off, to be gone on with later, and give every session back."""
        await self._host.put_off()
        await self._host.aclose()

    def _check_rests(self, session_id: str) -> None:
        if self.is_running(session_id):
            raise UsageError("an answer is under way", remedy="Stop it first, or wait for it.")

    async def _ready(self) -> Kit:
        if self._kit is None:
            try:
                self._kit = await asyncio.to_thread(self._make_kit)
            except ModuleNotFoundError as error:
                raise UsageError(
                    f"this needs the package {error.name}, which is not installed",
                    remedy="Install it with: pip install 'holdfast[agent,local]'",
                ) from error
        return self._kit

    def _agent(self, kit: Kit, session: Session) -> Agent:
        from holdfast.agent import builtin_tools

        # A question waits in the log: it outlives the page that shows it, and this app.
        return kit.agent(self._hf, session, lambda: builtin_tools(self._root), "suspend")

    def _tools(self, kit: Kit) -> frozenset[str]:
        from holdfast.agent import builtin_tools

        return kit.tool_names(lambda: builtin_tools(self._root))

    async def _answer(self, turn: HostedTurn, agent: Agent, session: Session, text: str | None) -> None:
        async with self._host.ause(session.id, lambda: session):
            # It is recorded as it comes, and pages read the record. It is held for no answer: `wake` goes on with one.
            await turn.carry(agent, agent.run_stream(text, session=session), session, hold_s=0)
