"""What the address of a PostgreSQL store says besides where the server is."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.errors import UsageError

__all__ = ["Options", "read_options"]

_FILES = {"sslrootcert", "sslcert", "sslkey", "sslcrl"}


class Options:
    """What the URL says besides where the server is."""

    def __init__(self, values: dict[str, str]) -> None:
        self.schema = values.pop("schema", "holdfast")
        self.connections = _number(values, "connections", 4)
        self.connect_s = _number(values, "connect_s", 10)
        self.statement_s = _number(values, "statement_s", 60)
        self.retry_s = _number(values, "retry_s", 30)
        if not self.schema.replace("_", "a").isalnum() or not self.schema.isascii():
            raise UsageError(f"{self.schema!a} is no name for a schema: letters, digits and _")


def read_options(url: str) -> tuple[str, Options]:
    """The address as PostgreSQL knows it, and our own options. Raises UsageError."""
    parts = urlsplit(url)
    try:
        parts.port  # noqa: B018 - reading it is the check
    except ValueError:
        # Not shown: what stands in the place of a port is often a part of the password.
        raise UsageError(
            "the port in the address of the database is not a number",
            remedy="Write @, :, / and # in a user name or password as %40, %3A, %2F and %23.",
        ) from None
    values = dict(parse_qsl(parts.query, keep_blank_values=True))
    options = Options(values)
    for name in _FILES & values.keys():
        # Told here: of one that is missing the library says no more than that some file is.
        if not os.path.isfile(values[name]):
            raise UsageError(f"{name} in the address: there is no file {values[name]}")
    return urlunsplit(parts._replace(query=urlencode(values))), options


def _number(values: dict[str, str], name: str, default: int) -> int:
    text = values.pop(name, str(default))
    if not text.isdecimal() or not int(text):
        raise UsageError(f"{name}={text[:40]!a} in the address must be a whole number above 0")
    return int(text)
