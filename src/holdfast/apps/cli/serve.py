"""``holdfast serve``: sessions over HTTP, its tokens and its spaces."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import click

from holdfast._lazy import lazy_modules
from holdfast.apps.cli._app import App, Parts
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import (
    host_option,
    json_option,
    model_option,
    named_option,
    needs_extra,
    option,
    port_option,
    verb,
    yes_option,
)
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.words import counted, day_time
from holdfast.errors import HoldfastError, UsageError
from holdfast.library.answers import filled
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.http.tokens import Token
    from holdfast.library.answers import store as answers
    from holdfast.storage import Store
else:
    (answers,) = lazy_modules("holdfast.library.answers", "store")

PARTS = {"token": "Create, list and revoke access tokens.", "space": "List and remove spaces."}
_TOKEN_COLUMNS = (*map(Column, ("ID", "SPACE", "SCOPE", "MADE", "STATE")), Column("LABEL", flexible=True))
_IN = re.compile(r"(\d{1,6}) ?(h|d|w)\Z", re.ASCII)
_HOURS = {"h": 1, "d": 24, "w": 168}
_SPACE_COLUMNS = (Column("SPACE"), Column("SESSIONS", right=True), Column("TOKENS", right=True))


@verb("serve", cls=Parts, parts=PARTS, invoke_without_command=True)
@port_option(8700)
@host_option("ADDRESS", "The address to listen on; 127.0.0.1 is not reachable from other machines.")
@option("--allow-host NAME", "Additional host name that clients may use; * for any.", name="hosts", multiple=True)
@option(
    "--allow-origin URL",
    "Web origin allowed to use the API, such as https://app.example.",
    name="origins",
    multiple=True,
)
@option("--rate N", "Requests per second and token, on average.", type=click.FloatRange(min=0.1), default=100.0)
@model_option
@option("--agent ID", "The agent for new sessions.")
@click.option("--no-agent", is_flag=True, help="Serve sessions only, without an agent.")
@named_option("--files", "root", of="folder", help="Let agents of a space read the files in DIR/<space>.")
def serve_verb(app: App, /, *, model: str | None, agent: str | None, no_agent: bool, **listening: Any) -> None:
    """Serve sessions and an agent over HTTP and WebSocket.

    Every client has a token for one space and cannot reach anything outside it. The API is described at
    /openapi.json. Turns running at shutdown are suspended and continue when requested again. Requests are
    logged to standard error.

    Examples:
      holdfast serve token create --space alice    a token for one user, shown once
      holdfast serve                               on http://127.0.0.1:8700
      holdfast serve --model openai:gpt-5 --port 9000
      holdfast serve --host 0.0.0.0 --allow-host sessions.example    behind a proxy
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    if no_agent and (model is not None or agent is not None):
        raise UsageError("--no-agent and --model cannot be used together", remedy="Drop one of them.")
    with needs_extra("web"):
        from holdfast.apps.http.server import serve
    from holdfast.agent import Kit

    def ready(address: str) -> None:
        app.err.line(Span("Serving at ", "good"), address)
        app.err.flush()

    kit = None if no_agent else Kit.configured(app.place, model=model, agent=agent)
    app.tell_guide(kit)
    serve(app.place, kit, ready=ready, **listening)


class _Until(click.ParamType[int]):
    """A moment to come, in Unix milliseconds: a date, or in how long."""

    name = "until"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the moment; one that has passed is refused."""
        if isinstance(value, int):
            return value
        now = datetime.now().astimezone()
        found = _IN.match(value.strip())
        try:
            if found:
                moment = now + timedelta(hours=int(found[1]) * _HOURS[found[2]])
            else:
                moment = datetime.fromisoformat(value.strip()).astimezone()
        except (ValueError, OverflowError):
            self.fail(f"{value[:40]!a} is neither a date (2031-05-31) nor a duration (30d, 12h)", param)
        if moment <= now:
            self.fail(f"{value[:40]!a} has passed", param)
        return int(moment.timestamp() * 1000)


@verb("token", serve_verb, cls=click.Group)
def _token(_: App) -> None:
    """Create, list and revoke access tokens.

    A token gives read, write or admin access to one space, or access to the metrics of the service. Only a digest
    of it is stored.

    Examples:
      holdfast serve token create --space alice --scope write --expires 90d
      holdfast serve token list
      holdfast serve token revoke 4f1c02a9b377
    """


@verb("create", _token)
@option("--space NAME", "The space it gives access to.", default="", show_default=False)
@option(
    "--scope SCOPE", "read, write or admin, each including the previous; or metrics, without a space.", default="write"
)
@option("--expires WHEN", "Expiry: a date, or a duration such as 90d or 12h.", type=_Until())
@option("--label TEXT", "A description.", default="", show_default=False)
@json_option
def _create(app: App, *, space: str, scope: str, expires: int | None, label: str) -> None:
    """Create a token and show it once."""
    from holdfast.apps.http.tokens import METRICS_SCOPE, TokenBook, widest_scope

    chosen = widest_scope(scope)
    if not space and chosen != METRICS_SCOPE:
        raise UsageError("no space given", remedy="Use --space NAME.")
    text, token = TokenBook(app.library.store).create(space, chosen, expires_at=expires, label=label)
    if app.as_json:
        app.out.json(filled(answers.TokenMade, token, token=text))
        return
    app.out.line(text)
    may = f"may {token.scope} in {token.space}" if token.space else "is for /metrics"
    app.err.line(Span(f"It {may}. It is not shown again; keep it safe.", "faint"))


@verb("list", _token)
@json_option
def _list_tokens(app: App) -> None:
    """List tokens, newest first (never their values)."""
    from holdfast.apps.http.tokens import TokenBook

    def state(token: Token) -> Literal["good", "expired", "revoked"]:
        if token.revoked_at is not None:
            return "revoked"
        return "good" if token.is_good(now_ms()) else "expired"

    found = TokenBook(app.library.store).all()
    if app.as_json:
        app.out.json(answers.TokenList(tokens=[filled(answers.TokenRow, one, state=state(one)) for one in found]))
        return
    if not found:
        app.err.line("There are no tokens; create one with `holdfast serve token create`.")
        return
    rows: list[list[Piece]] = []
    for one in found:
        shown = Span(state(one), "good" if state(one) == "good" else "faint")
        rows.append([one.id, one.space, one.scope, day_time(one.created_at), shown, one.label])
    app.out.table(_TOKEN_COLUMNS, rows)


@verb("revoke", _token)
@click.argument("id", metavar="ID")
def _revoke(app: App, id: str) -> None:
    """Revoke a token; servers notice within a second."""
    from holdfast.apps.http.tokens import TokenBook

    token = TokenBook(app.library.store).revoke(id)
    app.err.line(f"The token {token.id} of {token.space or 'metrics'} has been revoked.")


@verb("space", serve_verb, cls=click.Group)
def _space(_: App) -> None:
    """List and remove spaces.

    A space exists once a token was created for it.

    Examples:
      holdfast serve space list
      holdfast serve space remove alice
    """


@verb("list", _space)
@json_option
def _list_spaces(app: App) -> None:
    """List spaces with their number of sessions and valid tokens."""
    from holdfast.apps.http.tokens import TokenBook

    store, now = app.library.store, now_ms()
    tokens = TokenBook(store).all()
    good = Counter(one.space for one in tokens if one.is_good(now))
    names = sorted({one.space for one in tokens if one.space})
    found = [answers.SpaceRow(space=name, sessions=len(_sessions(store, name)), tokens=good[name]) for name in names]
    if app.as_json:
        app.out.json(answers.SpaceList(spaces=found))
    elif found:
        app.out.table(_SPACE_COLUMNS, [[one.space, str(one.sessions), str(one.tokens)] for one in found])
    else:
        app.err.line("There are no spaces; `holdfast serve token create` creates one.")


@verb("remove", _space)
@click.argument("name", metavar="NAME")
@yes_option
def _remove(app: App, name: str, *, yes: bool) -> int:
    """Revoke the tokens of a space and move its sessions to its trash.

    On a terminal it asks first. What is under legal hold, or open, stays, and is named.
    """
    from holdfast.apps.http.tokens import TokenBook
    from holdfast.storage import check_space

    store = app.library.store
    book = TokenBook(store)
    check_space(name)
    good = [one for one in book.all() if one.space == name and one.is_good(now_ms())]
    ids = _sessions(store, name)
    what = f"{counted(len(ids), 'session')} and {counted(len(good), 'token')} of {name}"
    asks = not yes and app.can_ask
    if asks and not click.confirm(f"Remove {what}?", err=True):
        app.err.line("Nothing was removed.")
        return EXIT_FAILED
    for one in good:  # first, so that nobody comes back while sessions go
        book.revoke(one.id)
    code = EXIT_FINE
    with app.library.space(name) as space:
        for id in ids:
            try:
                space.delete(id)
            except HoldfastError as error:
                code = EXIT_FAILED
                app.err.line(f"{id} stays: {error.message}")
    app.err.line(f"Removed {what}; HOLDFAST_SPACE={name} holdfast undelete ID brings one back.")
    return code


def _sessions(store: Store, name: str) -> list[str]:
    # By the store itself, so that nothing of the space has to be opened.
    prefix = f"spaces/{name}/sessions/"
    return sorted(key[len(prefix) :] for key in store.folders(prefix))
