"""``holdfast search``: find what was said, in every session or in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast._lazy import lazy_modules
from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose, tell_none
from holdfast.apps.cli._options import filter_options, json_option, limit_option, named_option, option, refuse, verb
from holdfast.apps.render.page import Piece, Span
from holdfast.apps.render.search import FoundSession, gather, parents_in
from holdfast.apps.render.words import ago
from holdfast.catalog import ROLES, Hit
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.library.answers import search as answers
else:
    (answers,) = lazy_modules("holdfast.library.answers", "search")

_STYLES = {"user": "user", "assistant": "assistant", "thinking": "thinking", "tool_call": "tool", "tool_result": "tool"}
_ARROWS = {"tool_call": "→ ", "tool_result": "← "}


@verb("search")
@click.argument("query", nargs=-1, required=True)
@named_option("--in", "inside", of="session", help="Search only this session; - for the newest.")
@filter_options(
    tags="Only sessions with this tag; repeatable.",
    since="Only matches since: 2026-05-01, 3d, 2h.",
    until="Only matches before.",
    agent_id="Only sessions of this agent.",
    model="Only sessions with this model.",
)
@option("--role ROLE", "Only matches by: user, assistant, tool, title, …", type=click.Choice(["tool", *ROLES]))
@option("--tool NAME", "Only calls and results of this tool.")
@limit_option(20)
@json_option
def search_verb(app: App, /, *, query: tuple[str, ...], inside: str | None, limit: int, **narrowed: Any) -> None:
    """Search the contents of sessions.

    All words must occur in the same event. Use "…" for a phrase, word* for a prefix, -word to exclude and
    a OR b for alternatives. Paths and code match literally, as does everything else.

    Examples:
      holdfast search auth error                 both words in one event
      holdfast search '"could not connect" -debug'
      holdfast search 'deploy* OR release*' --since 7d
      holdfast search src/auth/login.py --tool Read
      holdfast search sintra --in trip-planner --json
    """
    asked = " ".join(query)
    if not asked.strip():
        refuse("specify the words to search for")
    session_id = None if inside is None else choose(app.library, inside)
    hits = app.library.search(asked, session_id, limit=limit or None, **narrowed)
    if app.as_json:
        app.out.json(answers.SearchAnswer(query=asked, hits=hits))
        return
    if not hits:
        tell_none(app, narrowed["tags"], "No matches")
        return
    found = gather(hits, parents_in(app.library))
    _print(app, found)
    first = found[0]
    app.err.line()
    example = f"holdfast show {app.short(first.session_id)} --at {first.hits[0].seq}"
    app.err.line(Span(f"To read around a match: {example}", "faint"))
    if len(hits) == limit:
        app.err.line(Span("There may be more matches; use --limit 0 to show all.", "faint"))


def _print(app: App, found: Sequence[FoundSession]) -> None:
    """Print the hits by session, the best session first; hits that forks share are shown once, with the forks."""
    now = now_ms()
    short = app.library.short_ids(id for group in found for id in (group.session_id, *group.also_in))
    for number, group in enumerate(found):
        if number:
            app.out.line()
        title: list[Piece] = [Span(group.title, "strong"), "  "] if group.title else []
        also = ", ".join(short[id] for id in group.also_in)
        app.out.line(*title, Span(short[group.session_id], "name"), Span(f"  also in {also}" if also else "", "faint"))
        _print_hits(app, group.hits, now)


def _print_hits(app: App, hits: Sequence[Hit], now: int) -> None:
    for hit in hits:
        who = hit.tool if hit.tool and hit.role in _ARROWS else hit.role
        said = Span(f"{_ARROWS.get(hit.role, '')}{who}", _STYLES.get(hit.role, "warning"))
        app.out.line(Span(f"  #{hit.seq} ", "faint"), said, Span(f"  {ago(hit.timestamp, now)}", "faint"))
        # The catalogue says where the words are; they are marked, not searched for again.
        parts = [Span(text, "found" if found else "") for text, found in hit.snippet.parts()]
        app.out.line("    ", *parts, hang=4)
