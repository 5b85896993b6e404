"""``holdfast config``: what is set, by what, and whether it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast._config import KEYS, configuration, places, strange_variables, variable
from holdfast._lazy import lazy_modules
from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FINE, EXIT_USAGE
from holdfast.apps.cli._options import json_option, verb
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.words import counted
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.library.answers import store as answers
else:
    (answers,) = lazy_modules("holdfast.library.answers", "store")

_COLUMNS = (Column("SETTING"), Column("VALUE", flexible=True), Column("FROM", flexible=True))


@verb("config")
@click.argument("what", type=click.Choice(["show", "check", "path"]), default="show")
@click.option("--all", "everything", is_flag=True, help="With show: include settings that are not set.")
@json_option
def config_verb(app: App, what: str, *, everything: bool) -> int:
    """Show the configuration and where it comes from, check it, or list the files searched.

    In order of precedence: command line (--store), environment, holdfast.toml in the project, the user's
    config directory. `check` exits with code 2 if something is wrong.

    Examples:
      holdfast config                  what is set, and by what
      holdfast config show --all       every setting there is
      holdfast config check
      holdfast config path
    """
    if what == "check":
        return _check(app)
    if what == "path":
        _print_places(app)
    else:
        _show(app, everything=everything)
    return EXIT_FINE


def _show(app: App, *, everything: bool) -> None:
    found = configuration(_given(app))
    rows: dict[str, answers.Setting] = {}
    for name in KEYS if everything else [name for name, _ in found.items()]:
        origin, meaning = found.origin(name), KEYS[name].meaning
        rows[name] = answers.Setting(value=found.get(name), origin=origin, variable=variable(name), meaning=meaning)
    if app.as_json:
        app.out.json(answers.SettingList(settings=rows))
        return
    table: list[list[Piece]] = []
    for name, row in rows.items():
        value = "" if row.value is None else str(row.value)
        table.append([Span(name, "name"), value, Span(row.origin or "", "faint")])
    app.out.table(_COLUMNS, table)
    if not everything and app.out.is_terminal:
        more = len(KEYS) - len(rows)
        app.err.line(Span(f"and {counted(more, 'setting')} not set; use --all to show them", "faint"))


def _check(app: App) -> int:
    # A misspelt variable is passed over by everybody else, and somebody meant something by it.
    problems = {
        f"environment variable {name} is no setting{meant}": "Correct or unset it."
        for name, meant in strange_variables().items()
    }
    try:
        configuration(_given(app))
    except HoldfastError as error:
        problems = {error.message: error.remedy, **problems}
    if app.as_json:
        app.out.json(answers.SettingCheck(ok=not problems, problems=list(problems)))
    elif not problems:
        app.out.line(Span("The configuration is fine.", "good"))
    else:
        for message, remedy in problems.items():
            app.out.line(Span("wrong: ", "bad"), message)
            app.out.line("  ", remedy)
    return EXIT_USAGE if problems else EXIT_FINE


def _print_places(app: App) -> None:
    if app.as_json:
        app.out.json(answers.ConfigFiles(files=[answers.ConfigFile(**place._asdict()) for place in places()]))
        return
    for place in places():
        there = "" if place.exists else "  (not there)"
        app.out.line(Span(f"{place.whose:8}", "faint"), Span(place.path, "name"), there)


def _given(app: App) -> dict[str, Any]:
    return {} if app.place is None else {"store": app.place}
