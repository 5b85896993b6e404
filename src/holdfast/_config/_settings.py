"""The sources of settings: code, environment, the project, the user; and their precedence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast._config._keys import CODE, KEYS, check, flatten, suggestion, variable
from holdfast._config._places import (
    CONFIG_VARIABLE,
    PROJECT_FILE,
    PROJECT_FOLDER,
    here,
    prices_file,
    project_file,
    project_folder,
    user_file,
    user_folder,
)
from holdfast.errors import Forbidden, NotFound, UsageError
from holdfast.model import Limits
from holdfast.storage import Store, open_store

if TYPE_CHECKING:
    from holdfast.catalog import Prices
    from holdfast.session import Options

DEFAULT = "default"
# Variables that are no settings, but ours.
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, "HOLDFAST_PASSPHRASE", "HOLDFAST_PURE", "HOLDFAST_TRACEBACK"})
_FILE_BYTES_MAX = 1 << 20
_WRITABLE_BY_ANYONE = 0o002

Given = Mapping[str, Any] | str | os.PathLike[str] | None


class Found(msgspec.Struct, frozen=True):
    """The value of a setting and what said so."""

    value: Any
    origin: str


class SettingsFile(NamedTuple):
    """A file that is looked for, and whose it is."""

    path: str
    exists: bool
    whose: str


class Configuration:
    """Every setting that was given anywhere, each from the first place that has it."""

    def __init__(self, found: dict[str, Found]) -> None:
        self._found = found

    def get(self, name: str, default: Any = None) -> Any:
        found = self._found.get(name)
        return default if found is None else found.value

    def origin(self, name: str) -> str | None:
        """Return the source: ``code``, an environment variable, a file, ``default``; None if there is none."""
        found = self._found.get(name)
        return None if found is None else found.origin

    def items(self) -> Iterator[tuple[str, Found]]:
        """Yield every explicit setting, in the order of the documentation."""
        return ((name, self._found[name]) for name in KEYS if name in self._found)

    def below(self, section: str) -> dict[str, Any]:
        start = f"{section}."
        return {name.removeprefix(start): found.value for name, found in self._found.items() if name.startswith(start)}


def configuration(given: Given = None) -> Configuration:
    """Return the configuration: code, then environment, project, user, default.

    ``given`` is a mapping, the path of a TOML file, or that of an ``agent-config.json``. Raises UsageError for a
    setting that is misspelt or of the wrong kind, with its place; Forbidden for a file that others can write to.
    """
    found: dict[str, Found] = {}
    for origin, settings in _layers(given):
        for name, value in settings.items():
            found.setdefault(name, Found(value, origin))
    return Configuration(found)


def places() -> list[SettingsFile]:
    """Return the files that are looked for, the strongest first."""
    named = os.environ.get(CONFIG_VARIABLE)
    project = os.path.abspath(named) if named else project_file() or here(PROJECT_FILE)
    return [
        SettingsFile(project, os.path.isfile(project), CONFIG_VARIABLE if named else "project"),
        SettingsFile(user_file(), os.path.isfile(user_file()), "user"),
    ]


def strange_variables() -> dict[str, str]:
    """Return environment variables that look like settings but are not, with a suggestion."""
    known = {*map(variable, KEYS), *OTHER_VARIABLES}
    strange = [name for name in os.environ if name.startswith("HOLDFAST_") and name not in known]
    short = {name.removeprefix("HOLDFAST_").lower(): name for name in known}
    return {name: suggestion(name.removeprefix("HOLDFAST_"), short) for name in sorted(strange)}


def read_settings(path: str | os.PathLike[str], *, own: bool) -> dict[str, Any]:
    """Return the settings in a TOML or JSON file; with ``own`` false only settings that a project may set."""
    text = os.path.abspath(os.fspath(path))
    document = _document(text)
    # The file is another system's: only its part for storage is ours to judge, or a near miss of that name.
    if text.endswith(".json"):
        document = {name: one for name, one in document.items() if suggestion(str(name), ("storage",))}
        document = document or {"storage": {}}
    settings = flatten(document, text, os.path.dirname(text))
    refused = [name for name in settings if KEYS[name].own and not own]
    if refused:
        raise Forbidden(
            f"{text}: {refused[0]} may not come from a project: {KEYS[refused[0]].own}",
            remedy=f"Set it in {user_file()} or as {variable(refused[0])}.",
        )
    return settings


def _layers(given: Given) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the places in the order of their strength."""
    if isinstance(given, (str, os.PathLike)):
        yield os.path.abspath(os.fspath(given)), read_settings(given, own=True)
    elif given:
        yield CODE, flatten(given, CODE, None)
    for name in KEYS:
        value = os.environ.get(variable(name))
        if value:
            origin = f"environment variable {variable(name)}"
            yield origin, {name: check(name, value, origin)}
    named = os.environ.get(CONFIG_VARIABLE)
    project = os.path.abspath(named) if named else project_file()
    if project is not None:
        yield project, read_settings(project, own=bool(named))
    folder = project_folder()
    if folder is not None:
        yield f"the folder {PROJECT_FOLDER} of this project", {"store": folder}
    user = user_file()
    if os.path.isfile(user):
        yield user, read_settings(user, own=True)
    # The weakest comes last: what was found before it counts.
    yield DEFAULT, {"store": user_folder()}


def _document(path: str) -> dict[str, Any]:
    data = _bytes_of(path)
    try:
        if path.endswith(".json"):
            document = msgspec.json.decode(data)
        else:
            import tomllib

            document = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}", remedy="Correct the file.") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no settings", remedy="Correct the file.")
    return document


def _bytes_of(path: str) -> bytes:
    from holdfast.storage import read_file

    # The path is the user's own choice: symlinks count here, and are not followed any further.
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except OSError as error:
        raise NotFound(f"there is no configuration file {path}", remedy="Check its path.") from error
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & _WRITABLE_BY_ANYONE:
        raise Forbidden(
            f"{path} belongs to another user or can be written by anyone",
            remedy="Use a file of your own, closed with: chmod o-w",
        )
    if status.st_size > _FILE_BYTES_MAX:
        raise UsageError(f"{path} is too large to be a configuration file")
    return b"".join(read_file(real))


# The configuration as ``holdfast.open`` uses it.
_OF_SESSIONS = ("durability", "autosave_ms", "snapshot_ms", "wait_ms")


class Settings(msgspec.Struct, frozen=True):
    """The arguments of ``holdfast.open``, with defaults for the rest."""

    store: Store
    limits: Limits
    defaults: dict[str, Any]
    configuration: Configuration

    def options(self, **given: Any) -> Options:
        """Return the options of one session: the given values, or else the settings."""
        from holdfast.session import Options

        chosen = {name: value for name, value in given.items() if value is not None}
        try:
            return Options(**{"limits": self.limits, **self.defaults, **chosen})
        except TypeError as error:
            raise UsageError(f"unknown option: {error}") from error


def settle(
    where: str | os.PathLike[str] | Store | None, config: Given, limits: Limits | None, space: str | None = None
) -> Settings:
    """Return the settings from the given values. Raises UsageError for a misspelt or wrong one."""
    found = configuration(config)
    place = found.get("store") if where is None else where
    store = place if isinstance(place, Store) else open_store(place)
    # A store that the caller opened is taken as it is.
    if space is None and not isinstance(place, Store):
        space = found.get("space")
    if space is not None:
        from holdfast.storage import SpaceStore

        store = SpaceStore(store, space)
    defaults = {name: found.get(name) for name in _OF_SESSIONS if found.origin(name)}
    return Settings(store, limits or Limits(**found.below("limits")), defaults, found)


# The prices that count: those in prices.toml, then those in the settings, then the built-in.
def load_prices(found: Configuration) -> Prices:
    """Return the table of prices. Raises UsageError for one that is wrong, with its place."""
    from holdfast.catalog import Prices, read_prices

    own = read_prices(found.get("prices") or {})
    place = prices_file()
    if os.path.isfile(place):
        try:
            own = {**own, **read_prices(_document(place))}
        except UsageError as error:
            message = error.message if place in error.message else f"{place}: {error.message}"
            raise UsageError(message, remedy="Correct the file.") from error
    return Prices(own)
