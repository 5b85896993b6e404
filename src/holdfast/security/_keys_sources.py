"""Where a wrapping key comes from: the keyring, a file, the environment, a command, a passphrase.

keyring, keyring:NAME      the system's keyring, under the service "holdfast"
file:PATH                  a file of 32 bytes, raw, in hex or in base64, that only its owner reads
env:VARIABLE               the same in a variable
command:PROGRAM ARGUMENTS  the same as a program prints it
passphrase                 a text to remember: HOLDFAST_PASSPHRASE, else it is asked for
passphrase:VARIABLE        the same in another variable
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from holdfast.errors import Forbidden, KeyMissing, UsageError
from holdfast.security._keys import read_key_text

__all__ = [
    "KINDS",
    "PASSPHRASE_VARIABLE",
    "ReadFile",
    "find_passphrase",
    "find_secret",
    "keyring_backend",
    "split_source",
    "store_in_keyring",
]

KINDS = ("keyring", "file", "env", "command", "passphrase")
PASSPHRASE_VARIABLE = "HOLDFAST_PASSPHRASE"  # noqa: S105 - its name
ReadFile = Callable[[str], bytes]

_SERVICE = "holdfast"
_NAME = "default"
_COMMAND_S = 60
_NEEDS_VALUE = ("file", "env", "command")
_SAFE_REMEDY = (
    "Use a key file (holdfast keys new file:PATH, then key = 'file:PATH'),"
    " a passphrase (key = 'passphrase'), or key = 'command:…'."
)
# They write the key in the clear, or only hide it, beside what it protects.
_UNSAFE = ("plaintext", "keyrings.alt", "null")


def split_source(source: str) -> tuple[str, str]:
    """A source's kind and what follows. Raises UsageError for what is none."""
    kind, _, value = source.partition(":")
    if kind not in KINDS or (kind in _NEEDS_VALUE and not value.strip()):
        raise UsageError(
            f"{source[:60]!a} names no key",
            remedy="Use keyring, file:PATH, env:VARIABLE, command:PROGRAM or passphrase.",
        )
    return kind, value


def find_secret(source: str, read_file: ReadFile) -> bytes:
    """The 32 bytes that a source holds; not for passphrases. Raises KeyMissing, Forbidden."""
    kind, value = split_source(source)
    if kind == "keyring":
        return read_key_text(_from_keyring(value or _NAME), "the keyring")
    if kind == "file":
        return read_key_text(read_file(os.path.expanduser(value)), value)
    if kind == "env":
        text = os.environ.get(value)
        if not text:
            raise KeyMissing(f"the variable {value} holds no key", remedy=f"Set {value}.")
        return read_key_text(text.encode("utf-8", "surrogateescape"), value)
    return read_key_text(_from_command(value), "what the command printed")


def find_passphrase(source: str, ask: Callable[[str], str] | None) -> str:
    """The passphrase of a source. Raises KeyMissing where there is none and nobody to ask."""
    _, value = split_source(source)
    variable = value or PASSPHRASE_VARIABLE
    found = os.environ.get(variable)
    if found:
        return found
    if value or ask is None:
        raise KeyMissing(
            "the passphrase is not here",
            remedy=f"Set {variable}, or name another key (holdfast keys --help).",
        )
    return ask("Passphrase of the sessions: ")


def keyring_backend() -> Any:
    """The system's keyring. Raises KeyMissing without one, Forbidden for one that is unsafe."""
    try:
        import keyring
    except ImportError as error:
        raise UsageError(
            "the keyring needs the package keyring",
            remedy="Install it with: pip install 'holdfast[crypto]'",
        ) from error
    found = keyring.get_keyring()
    for backend in getattr(found, "backends", None) or [found]:
        name = f"{type(backend).__module__}.{type(backend).__qualname__}"
        if "backends.fail" in name:
            raise KeyMissing("this machine has no keyring that can be used", remedy=_SAFE_REMEDY)
        if any(part in name.lower() for part in _UNSAFE):
            raise Forbidden(
                f"the keyring {name} keeps keys unprotected; it is not used", remedy=_SAFE_REMEDY
            )
    return found


def store_in_keyring(name: str, text: str) -> None:
    """Keep a new key. Raises Forbidden if there is one of that name."""
    backend = keyring_backend()
    if _asked(lambda: backend.get_password(_SERVICE, name or _NAME)) is not None:
        raise Forbidden(
            f"the keyring has a key named {name or _NAME} already",
            remedy="Choose another name: keyring:NAME.",
        )
    _asked(lambda: backend.set_password(_SERVICE, name or _NAME, text))


def _from_keyring(name: str) -> bytes:
    backend = keyring_backend()
    found = _asked(lambda: backend.get_password(_SERVICE, name))
    if found is None:
        raise KeyMissing(
            f"the keyring has no key named {name}",
            remedy=f"Make one with: holdfast keys new keyring:{name}",
        )
    return str(found).encode()


def _asked(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:  # each backend has errors of its own
        raise KeyMissing(
            f"the keyring does not answer: {str(error)[:200]}", remedy=_SAFE_REMEDY
        ) from error


def _from_command(command: str) -> bytes:
    import shlex
    import subprocess

    try:
        words = shlex.split(command)
        done = subprocess.run(  # noqa: S603 - the user's own command, without a shell
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_COMMAND_S, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise KeyMissing(
            f"the command for the key failed: {type(error).__name__}",
            remedy="Run it by hand; it must print a key of 32 bytes in hex or base64.",
        ) from error
    return done.stdout
