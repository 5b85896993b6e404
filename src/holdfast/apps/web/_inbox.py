"""The open requests of sessions, and ways to answer them: a page for all, and a part of the page of each session."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast.apps.render.questions import ANSWERED, QuestionView, person, read_said, view_of
from holdfast.apps.web._actions import came_from, form_of
from holdfast.apps.web._page import Note, Site, back_to, guest_of, page, session_url, site_of
from holdfast.errors import HoldfastError, QuestionSettled, UsageError

# A button, and for how long what it allows counts.
_SCOPES = {"allow": "once", "session": "session", "always": "always"}


def questions_of(site: Site, id: str, status: str) -> list[QuestionView]:
    """Return the open requests of one session."""
    return [view_of(one) for one in site.hf.waiting(session=id)] if status in ("waiting", "suspended") else []


def waiting_page(request: Request) -> Response:
    """Return the questions of all sessions, the oldest first."""
    return _waiting_page(request)


def questions_part(request: Request) -> Response:
    """Return the questions of one session, for the page that shows it."""
    site = site_of(request)
    row = site.hf.info(str(request.path_params["id"]))
    questions = questions_of(site, row.session_id, row.status)
    return page(request, "part/questions.html", questions=questions, back=session_url(row.session_id))


def _waiting_page(request: Request, status: int = 200, **failed: Any) -> Response:
    found = [view_of(one) for one in site_of(request).hf.waiting()]
    titles = {one.one.session_id: site_of(request).hf.info(one.one.session_id).title for one in found}
    shown = {"questions": [one for one in found if one.is_asked], "later": [one for one in found if not one.is_asked]}
    ids = " ".join(one.one.id for one in found)
    return page(request, "waiting.html", status, **shown, ids=ids, titles=titles, back="/waiting", failed=failed)


async def answer(request: Request) -> Response:
    """Record an answer to a question durably; the session continues automatically if its agent is here."""
    form, site, ask = await form_of(request), site_of(request), str(request.path_params["ask"])
    word = form.get("do", "")
    try:
        found = await asyncio.to_thread(site.hf.inbox.find, ask)
        given = read_said(found, "allow" if word in _SCOPES else word, form.get("text", ""))
        said = {"because": form.get("because", "").strip() or None, "scope": _SCOPES.get(word, "once")}
        told = await asyncio.to_thread(
            lambda: site.hf.answer(found.id, given, by=person(), via="web", session_id=found.session_id, **said)
        )
    except HoldfastError as error:
        if not isinstance(error, UsageError) or isinstance(error, QuestionSettled) or word != "edit":
            guest_of(request).tell(Note.of(error))
            return back_to(came_from(form, "/waiting"))
        # The input is shown again, to be corrected.
        failed = {"ask": ask, "text": form.get("text", ""), "told": Note.of(error).text}
        return await asyncio.to_thread(lambda: _waiting_page(request, 400, **failed))
    goes_on = await site.talks.wake(found.session_id)
    later = "" if goes_on else " Whoever runs its agent goes on with it."
    guest_of(request).tell(Note(f"{ANSWERED[told.decision]}: {found.tool or 'the question'}.{later}"))
    return back_to(came_from(form, "/waiting"))
