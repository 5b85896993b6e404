"""Shell completion of ids, tags and other names of the store.

Each answer is looked up in the store's catalogue and neutralised first: a shell puts it onto the
command line, and shows the titles beside it. On any failure nothing is offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import click
from click import shell_completion as shells

from holdfast.apps.cli._options import STORE
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import fold_id
from holdfast.security import neutralise_line

_OFFERED_MAX = 200
_LOOKED_AT_MAX = 1_000
_TITLE_CHARS = 60

Offer = list[shells.CompletionItem[str]]


def offered(ctx: click.Context, what: str, incomplete: str) -> Offer:
    """Offer the ids, tags or agents in the store that begin like this; nothing if that fails."""
    # The line is parsed half: --store after the verb was kept there by its callback.
    place = ctx.meta.get(STORE) or ctx.find_root().params.get("store")
    try:
        with Holdfast(place, timers=False) as library:
            return _LOOKS[what](library, incomplete)
    # A message would be drawn into the line that somebody is typing.
    except (HoldfastError, OSError):
        return []


def _sessions(library: Holdfast, incomplete: str) -> Offer:
    """Offer the sessions whose id begins like this, the newest first, each with its title."""
    wanted = fold_id(incomplete)
    titles = {row.session_id: row.title or "" for row in library.list(_LOOKED_AT_MAX)}
    begin = [id for id in titles if fold_id(id).startswith(wanted)]
    # Older sessions than those are found by the beginning of the id, which costs no list.
    if len(titles) == _LOOKED_AT_MAX and incomplete:
        begin += [id for id in library.session_ids(incomplete) if id not in titles]
    return [_item(id, titles.get(id, "")) for id in begin[:_OFFERED_MAX]]


def _tags(library: Holdfast, incomplete: str) -> Offer:
    return _names((tag for row in library.list(_LOOKED_AT_MAX) for tag in (*row.tags, *row.auto_tags)), incomplete)


def _agents(library: Holdfast, incomplete: str) -> Offer:
    return _names((row.agent_id for row in library.list(_LOOKED_AT_MAX) if row.agent_id), incomplete)


_LOOKS: dict[str, Callable[[Holdfast, str], Offer]] = {"id": _sessions, "tag": _tags, "agent": _agents}


def _names(names: Iterable[str], incomplete: str) -> Offer:
    begin = sorted({name for name in names if name.startswith(incomplete)})
    # A tag may hold what a terminal obeys, and shells show it as it is.
    harmless = [name for name in begin if name.strip() and neutralise_line(name) == name]
    return [_item(name) for name in harmless[:_OFFERED_MAX]]


def _item(value: str, title: str = "") -> shells.CompletionItem[str]:
    shown = " ".join(neutralise_line(title).split())
    if len(shown) > _TITLE_CHARS:
        shown = shown[: _TITLE_CHARS - 1] + "…"
    return shells.CompletionItem(value, help=shown or None)


# The scripts that let a shell complete the command, and how answers are written for each.
#
# As click does it, with one difference: what is offered may be a tag, which is text of strangers,
# so bash gets it quoted, and no script lets a shell expand an answer.
SHELLS = ("bash", "zsh", "fish")
_NEEDS_QUOTES = re.compile(r"[^\w@%+=:,./-]")


class _OwnScript(shells.ShellComplete):
    def source(self) -> str:
        """Return our script, for any version: older ones only lack the order of what is offered."""
        # By the loader of this module, which also reads out of a zip file.
        loader: Any = __spec__.loader
        script: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), f"completion.{self.name}"))
        return script.decode() % self.source_vars()


class _OneLine(shells.ShellComplete):
    def format_completion(self, item: shells.CompletionItem[str]) -> str:
        """Return one completion on one line; zsh and fish quote what they put onto the command line."""
        help_ = None if item.help is None else " ".join(item.help.split())
        return super().format_completion(shells.CompletionItem(item.value, type=item.type, help=help_))


class _Bash(_OwnScript, shells.BashComplete):
    def format_completion(self, item: shells.CompletionItem[str]) -> str:
        """Return the answer as it can stand on a command line."""
        quoted = _NEEDS_QUOTES.sub(r"\\\g<0>", item.value)
        return f"{item.type},{quoted}"


class _Zsh(_OneLine, shells.ZshComplete):
    # A failure is no business of the line that somebody is typing.
    source_template = shells.ZshComplete.source_template.replace(
        "=zsh_complete %(prog_name)s)", "=zsh_complete %(prog_name)s 2>/dev/null)"
    )


class _Fish(_OwnScript, _OneLine, shells.FishComplete):
    pass


def learn_shells() -> None:
    """Make click use these."""
    for one in (_Bash, _Zsh, _Fish):
        shells.add_completion_class(one)


def script(shell: str) -> str:
    """Return the script that a shell reads to complete the command."""
    from holdfast.apps.cli._app import COMPLETE_VARIABLE, cli

    kind = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}[shell]
    return kind(cli, {}, "holdfast", COMPLETE_VARIABLE).source()
