"""What a shell offers where an id, a tag or another name of the store is due.

Each answer is looked up in the store's catalogue and made harmless first: a shell puts it onto the
command line, and shows the titles beside it. Whatever fails, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from holdfast.apps.cli._options import STORE
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import SessionMetadata, fold_id
from holdfast.security import neutralise_line

__all__ = ["complete_agent", "complete_id", "complete_tag"]

_OFFERED_MAX = 200
_LOOKED_AT_MAX = 1_000
_TITLE_CHARS = 60

Offer = list[CompletionItem[str]]


def complete_id(ctx: click.Context, _: click.Parameter, incomplete: str) -> Offer:
    """Sessions whose id begins like this, the newest first, each with its title."""
    return _ask(ctx, lambda library: _sessions(library, incomplete))


def complete_tag(ctx: click.Context, _: click.Parameter, incomplete: str) -> Offer:
    """Tags of sessions, also automatic ones."""
    return _ask(ctx, lambda library: _names(library, _tags, incomplete))


def complete_agent(ctx: click.Context, _: click.Parameter, incomplete: str) -> Offer:
    """Agents that have sessions."""
    return _ask(ctx, lambda library: _names(library, _agents, incomplete))


def _tags(row: SessionMetadata) -> Iterable[str]:
    return (*row.tags, *row.auto_tags)


def _agents(row: SessionMetadata) -> Iterable[str]:
    return [row.agent_id] if row.agent_id else []


def _ask(ctx: click.Context, look: Callable[[Holdfast], Offer]) -> Offer:
    place = ctx.meta.get(STORE) or ctx.find_root().params.get("store")
    try:
        with Holdfast(place, timers=False) as library:
            return look(library)
    except (HoldfastError, OSError):
        return []


def _sessions(library: Holdfast, incomplete: str) -> Offer:
    wanted = fold_id(incomplete)
    titles = {row.session_id: row.title or "" for row in library.list(_LOOKED_AT_MAX)}
    begin = [id for id in titles if fold_id(id).startswith(wanted)]
    if len(titles) == _LOOKED_AT_MAX and incomplete:
        begin += [id for id in library.session_ids(incomplete) if id not in titles]
    return [_item(id, titles.get(id, "")) for id in begin[:_OFFERED_MAX]]


def _names(
    library: Holdfast, names: Callable[[SessionMetadata], Iterable[str]], incomplete: str
) -> Offer:
    rows = library.list(_LOOKED_AT_MAX)
    found = sorted({name for row in rows for name in names(row)})
    fitting = [name for name in found if name.startswith(incomplete) and is_harmless(name)]
    return [_item(name) for name in fitting[:_OFFERED_MAX]]


def is_harmless(name: str) -> bool:
    """Whether a name is one line of characters that can be seen."""
    return bool(name.strip()) and neutralise_line(name) == name


def _item(value: str, title: str = "") -> CompletionItem[str]:
    shown = " ".join(neutralise_line(title).split())
    if len(shown) > _TITLE_CHARS:
        shown = shown[: _TITLE_CHARS - 1] + "…"
    return CompletionItem(value, help=shown or None)
