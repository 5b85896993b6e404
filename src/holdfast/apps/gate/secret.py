"""The comparison of secrets, for the servers and for the command, which lists tokens without any of them."""

from __future__ import annotations


def same_secret(given: str, known: str) -> bool:
    """Return whether two secrets are equal, in a time that does not depend on where they differ."""
    import hmac  # it loads OpenSSL

    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode("utf-8", "replace"))
