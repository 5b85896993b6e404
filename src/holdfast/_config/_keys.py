"""Every setting there is: its name, its kind, what it means; and the check of what was given."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.model import Limits
from holdfast.storage import Store

CODE = "code"
STORAGE_TYPES = ("none", "memory", "filesystem")
_FILESYSTEM_PATH = ".agent-sessions"
_PREFIX = "HOLDFAST_"
_LOSS = "your sessions could be lost by it"
_SECRETS = "your secrets could be written down by it"
_PLACES = ("store", "log.file")
_STRANGE_FILE = "it names a file of yours to write to"
_SCHEME_CHARS_MIN = 2  # one letter before a colon is a drive of Windows


class Key(msgspec.Struct, frozen=True):
    """One setting; a whole number has a least value, a text may have choices."""

    kind: type
    meaning: str
    least: int = 0
    choices: tuple[str, ...] = ()
    own: str = ""  # why only the user's own places may say it, and never a project that may be a stranger's


KEYS: dict[str, Key] = {
    "store": Key(str, "where sessions are kept: a path or a URL"),
    "space": Key(str, "the space of the store whose sessions are meant; without it none"),
    "durability": Key(str, "when to flush", choices=("barriers", "always", "os")),
    "autosave_ms": Key(int, "flush what changed this often; 0 for never"),
    "snapshot_ms": Key(int, "take a snapshot this often; 0 for never"),
    "wait_ms": Key(int, "wait so long for a session that another process has; 0 for not at all"),
    "seal": Key(bool, "whether new sessions are sealed (encrypted); needs a key"),
    "key": Key(
        str,
        "the key that opens sealed sessions: keyring, file:PATH, env:NAME, command:…, passphrase",
        own="it may run a command, or take your key away",
    ),
    "model": Key(str, "the model of chat and run, such as anthropic:claude-sonnet-5-5"),
    "base_url": Key(str, "an OpenAI-compatible server for the model", own="your keys are sent there"),
    "model_servers": Key(bool, "whether servers on this machine are asked for a model; true unless you say false"),
    "agent": Key(str, "the agent that chat and run go on with"),
    "instructions": Key(str, "what the agent of chat and run is told"),
    "mcp_servers": Key(dict, "MCP servers by name, whose tools the agent may call", own="it may start programs"),
    "approvals.expire_ms": Key(int, "how long a call that waits waits for an answer; 0 for as long as it takes"),
    "approvals.on_expiry": Key(
        str, "what counts then", choices=("deny", "allow"), own="what nobody allowed could be done by it"
    ),
    "retention.trash_days": Key(int, "days until deleted sessions go for good; 0: never", own=_LOSS),
    "retention.snapshot_days": Key(int, "older snapshots go, but the newest; 0 keeps them"),
    "retention.policies": Key(list, "which sessions are archived or deleted, and when", own=_LOSS),
    "redaction.mode": Key(str, "what happens to secrets", choices=("off", "mark", "block"), own=_SECRETS),
    "redaction.environment": Key(bool, "whether values of the environment with secret names count", own=_SECRETS),
    "redaction.model": Key(bool, "whether the running model gets the marks as well"),
    "redaction.rules": Key(list, "rules of your own: id, regex, keywords, …", own=_SECRETS),
    "catalog.auto_tags": Key(bool, "tag sessions by their content; true unless you say false"),
    "log.level": Key(
        str,
        "what is told of sessions; of serve info, else off unless you say",
        choices=("off", "error", "warning", "info", "debug"),
    ),
    "log.format": Key(str, "how it is told; json unless you say", choices=("json", "text")),
    "log.file": Key(str, "the file that it is told in; standard error unless you say", own=_STRANGE_FILE),
    "otel": Key(bool, "whether traces and metrics are given to OpenTelemetry"),
    "prices": Key(dict, "dollars per million tokens, by model: input, output, cache_read, …"),
    "guide.word_ms": Key(int, "how long the guide takes for a word; 25 unless you say"),
    "local.threads": Key(int, "threads of the embedded model", least=1),
    "local.context_tokens": Key(int, "context of the embedded model", least=256),
    **{f"limits.{name}": Key(int, "see the limits", least=1) for name in Limits.__struct_fields__},
}


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return _PREFIX + name.upper().replace(".", "_")


def flatten(document: Mapping[str, Any], origin: str, base: str | None) -> dict[str, Any]:
    """Check a document; its settings by full name, places counted from ``base``. Raises UsageError, with the origin."""
    if not isinstance(document, Mapping):
        raise _wrong(origin, f"settings are a table, not {type(document).__name__}")
    rest = dict(document)
    found: dict[str, Any] = {}
    if "storage" in rest:
        if "store" in rest:
            raise _wrong(origin, "store and storage are two ways to say the same; give one")
        found["store"] = _anchored(_storage_place(rest.pop("storage"), origin), base)
    for name, value in _leaves(rest, "", origin):
        checked = check(name, value, origin)
        found[name] = _anchored(checked, base) if name in _PLACES else checked
    return found


def check(name: str, value: Any, origin: str) -> Any:
    """Return ``value`` if it is valid for the setting. Raises UsageError that names the valid values."""
    key = KEYS[name]
    if key.kind is int:
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value) if origin.startswith("environment") else value
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(origin, f"{name} must be a whole number, not {value!r}")
        if value < key.least:
            raise _wrong(origin, f"{name} must be at least {key.least}, not {value}")
        return value
    if key.kind in (list, dict):
        return _tables(name, value, origin)
    if key.kind is bool:
        if isinstance(value, str) and origin.startswith("environment"):
            value = {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
        if not isinstance(value, bool):
            raise _wrong(origin, f"{name} must be true or false, not {value!r}")
        return value
    if name == "store" and isinstance(value, (os.PathLike, Store)) and origin == CODE:
        return value
    if not isinstance(value, str) or not value.strip():
        raise _wrong(origin, f"{name} must be a text that is not empty, not {value!r}")
    if key.choices and value not in key.choices:
        raise _wrong(origin, f"{name} {value!r} is none of {', '.join(key.choices)}{suggestion(value, key.choices)}")
    return value


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the names that may have been meant."""
    import difflib

    close = difflib.get_close_matches(name[:128].lower(), list(allowed), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _leaves(document: Mapping[str, Any], prefix: str, origin: str) -> Iterator[tuple[str, Any]]:
    for part, value in document.items():
        name = f"{prefix}{part}"
        if name in KEYS:
            yield name, value
        elif any(known.startswith(f"{name}.") for known in KEYS):
            if isinstance(value, Limits):
                value = {field: getattr(value, field) for field in value.__struct_fields__}  # noqa: PLW2901 - another form of the same
            if not isinstance(value, Mapping):
                raise _wrong(origin, f"{name} must be a table of settings, not {value!r}")
            yield from _leaves(value, f"{name}.", origin)
        else:
            here = {known.removeprefix(prefix).partition(".")[0] for known in KEYS if known.startswith(prefix)}
            noun, close = "limit" if prefix == "limits." else "setting", sorted(here | {"storage"})
            raise _wrong(origin, f"unknown {noun} {name!r}{suggestion(str(part), close)}")


def _tables(name: str, value: Any, origin: str) -> Any:
    """Return a table, or a list of tables, from JSON in the environment; its members are checked by its reader."""
    is_list = KEYS[name].kind is list
    shape = "a list of tables" if is_list else "a table"
    if isinstance(value, str) and origin.startswith("environment"):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise _wrong(origin, f"{name} must be {shape} as JSON: {error}") from error
    tables = value if is_list and isinstance(value, list) else [None if is_list else value]
    if not all(isinstance(table, Mapping) for table in tables):
        raise _wrong(origin, f"{name} must be {shape}, not {value!r}")
    from holdfast.catalog import read_policies, read_prices
    from holdfast.security import read_user_rules

    if name == "mcp_servers":  # what belongs to one is checked by the agent that starts it
        if strange := [each for each, table in value.items() if not isinstance(table, Mapping)]:
            raise _wrong(origin, f"{name}.{strange[0]} must be a table")
        return dict(value)
    read: Any = {"prices": read_prices, "redaction.rules": read_user_rules, "retention.policies": read_policies}[name]
    try:
        read(value)
    except UsageError as error:
        raise _wrong(origin, error.message) from error
    return value if is_list else dict(value)


def _storage_place(storage: Any, origin: str) -> str:
    """Return the place of the form ``{type: …, options: {path: …}}``."""
    if not isinstance(storage, Mapping):
        raise _wrong(origin, f"storage must have a type and options, not {storage!r}")
    _check_names(storage, ("type", "options"), "storage.", origin)
    kind = storage.get("type", "none")
    if kind not in STORAGE_TYPES:
        close = suggestion(str(kind), STORAGE_TYPES)
        raise _wrong(origin, f"storage type {kind!r} is none of {', '.join(STORAGE_TYPES)}{close}")
    options = storage.get("options") or {}
    if not isinstance(options, Mapping):
        raise _wrong(origin, f"storage.options must be a table, not {options!r}")
    if kind != "filesystem":
        return f"{kind}:"
    _check_names(options, ("path",), "storage.options.", origin)
    path = options.get("path", _FILESYSTEM_PATH)
    if not isinstance(path, str) or not path:
        raise _wrong(origin, "storage.options.path must be the path of a directory")
    return path


def _check_names(given: Mapping[str, Any], known: tuple[str, ...], prefix: str, origin: str) -> None:
    for name in given:
        if name not in known:
            raise _wrong(origin, f"unknown setting {prefix}{name}{suggestion(str(name), known)}")


def _anchored(place: Any, base: str | None) -> Any:
    """Resolve a relative path in a file from the folder of the file, not the working directory."""
    if base is None or not isinstance(place, str):
        return place
    scheme, colon, _ = place.partition(":")
    if colon and len(scheme) >= _SCHEME_CHARS_MIN and "/" not in scheme:
        return place
    return os.path.join(base, os.path.expanduser(place))


def _wrong(origin: str, message: str) -> UsageError:
    if origin == CODE:
        return UsageError(message)
    return UsageError(
        f"{origin}: {message}", remedy="Correct it; `holdfast config show` tells what counts.", origin=origin
    )
