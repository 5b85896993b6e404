"""``holdfast serve token``: who may use the service, and for what."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Literal

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._help import with_shared_options
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.render.page import Column, Span
from holdfast.apps.render.words import day_time
from holdfast.errors import UsageError
from holdfast.session import now_ms

_COLUMNS = (
    Column("ID"),
    Column("SPACE"),
    Column("SCOPE"),
    Column("MADE"),
    Column("STATE"),
    Column("LABEL", flexible=True),
)
_IN = re.compile(r"(\d{1,6}) ?(h|d|w)\Z", re.ASCII)
_HOURS = {"h": 1, "d": 24, "w": 168}


class _Until(click.ParamType[int]):
    """A moment to come, in Unix milliseconds: a date, or in how long."""

    name = "until"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The moment; one that has passed is refused."""
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
            self.fail(f"{value[:40]!a} is no date (2031-05-31) and no time (30d, 12h)", param)
        if moment <= now:
            self.fail(f"{value[:40]!a} has passed", param)
        return int(moment.timestamp() * 1000)


@click.group(
    "token",
    epilog="""\b
Examples:
  holdfast serve token create --space alice --scope write --expires 90d
  holdfast serve token list
  holdfast serve token revoke 4f1c02a9b377
""",
)
def command() -> None:
    """Make, list and revoke the tokens of the service.

    A token opens one space, to read, to write, or for everything (admin); or it opens none, and is
    for the metrics of the service. The store keeps only a digest of it.
    """


@click.command("create")
@click.option("--space", default="", metavar="NAME", help="The space that it opens.")
@click.option(
    "--scope",
    default="write",
    show_default=True,
    metavar="SCOPE",
    help="read, write or admin, each with what those before it may; or metrics, without a space.",
)
@click.option("--expires", type=_Until(), metavar="WHEN", help="A date, or in how long: 90d, 12h.")
@click.option("--label", default="", metavar="TEXT", help="What it is for.")
@json_option
@store_option
@click.pass_obj
def _create(
    app: App, *, space: str, scope: str, expires: int | None, label: str, as_json: bool
) -> None:
    """Make a token, and show it once."""
    from holdfast.apps.http.tokens import METRICS_SCOPE, TokenBook, widest_scope

    chosen = widest_scope(scope)
    if not space and chosen != METRICS_SCOPE:
        raise UsageError("a token opens a space, and none is named", remedy="Name it: --space.")
    text, token = TokenBook(app.library.store).create(
        space, chosen, expires_at=expires, label=label
    )
    if as_json:
        from holdfast.library.answers.store import TokenMade

        app.out.json(
            TokenMade(
                token=text,
                id=token.id,
                space=token.space,
                scope=token.scope,
                expires_at=token.expires_at,
            )
        )
        return
    app.out.line(text)
    may = f"may {token.scope} in {token.space}" if token.space else "is for /metrics"
    app.err.line(Span(f"It {may}. It is shown only now; keep it.", "faint"))


@click.command("list")
@json_option
@store_option
@click.pass_obj
def _list(app: App, *, as_json: bool) -> None:
    """List the tokens, newest first; never what they are."""
    from holdfast.apps.http.tokens import Token, TokenBook

    def state(token: Token) -> Literal["good", "expired", "revoked"]:
        if token.revoked_at is not None:
            return "revoked"
        return "good" if token.is_good(now_ms()) else "expired"

    found = TokenBook(app.library.store).all()
    if as_json:
        from holdfast.library.answers.store import TokenList, TokenRow

        rows = [
            TokenRow(
                id=one.id,
                space=one.space,
                scope=one.scope,
                label=one.label,
                created_at=one.created_at,
                expires_at=one.expires_at,
                revoked_at=one.revoked_at,
                state=state(one),
            )
            for one in found
        ]
        app.out.json(TokenList(tokens=rows))
        return
    if not found:
        app.err.line("There are no tokens; make one with `holdfast serve token create`.")
        return
    app.out.table(
        _COLUMNS,
        [
            [
                one.id,
                one.space,
                one.scope,
                day_time(one.created_at),
                Span(state(one), "good" if state(one) == "good" else "faint"),
                one.label,
            ]
            for one in found
        ],
    )


@click.command("revoke")
@click.argument("id", metavar="ID")
@store_option
@click.pass_obj
def _revoke(app: App, id: str) -> None:
    """Let a token count no more; servers notice within a second."""
    from holdfast.apps.http.tokens import TokenBook

    token = TokenBook(app.library.store).revoke(id)
    app.err.line(f"The token {token.id} of {token.space or 'metrics'} counts no more.")


for _each in (_create, _list, _revoke):
    command.add_command(with_shared_options(_each))
