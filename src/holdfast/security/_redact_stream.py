"""Secrets in text that comes in pieces: held back only until it is clear what they are."""

from __future__ import annotations

import re
from typing import NamedTuple

from holdfast.security._redact import Finding, Redactor
from holdfast.security._redact_scan import Span

__all__ = ["NOTHING_STREAMED", "Streamed", "feed", "finish"]

_CONTEXT_CHARS = 400
_HELD_CHARS_MAX = 16_384
# Secrets are made of ASCII; words of languages without blanks need not wait.
_OF_WORDS = "".join(map(chr, range(ord("!"), ord("~") + 1)))
_PEM = "-----BEGIN"
_PEM_END = re.compile(r"-----END[^\n]{0,100}-----")


class Streamed(NamedTuple):
    """How far a stream has come: what was said last, and what is not recorded yet."""

    context: str = ""
    held: str = ""


NOTHING_STREAMED = Streamed()


def feed(redactor: Redactor, before: Streamed, piece: str) -> tuple[Streamed, str, list[Finding]]:
    """The next piece of a stream: where it stands now, and what may be recorded of it.

    The last word is kept back, because a secret may go on in the next piece, and so is a private
    key that has not ended. Never more than 16 KiB are.
    """
    text = before.held + piece
    spans = _spans(redactor, before.context, text)
    cut = _cut(text, spans)
    if len(text) - cut > _HELD_CHARS_MAX:
        cut = len(text)
    return _given(redactor, before.context, text, spans, cut)


def finish(redactor: Redactor, before: Streamed) -> tuple[str, list[Finding]]:
    """What was held back, when nothing more comes."""
    spans = _spans(redactor, before.context, before.held)
    return _given(redactor, before.context, before.held, spans, len(before.held))[1:]


def _spans(redactor: Redactor, context: str, text: str) -> list[Span]:
    """The secrets in the new text, seen together with what came before it."""
    shift = len(context)
    return [
        Span(max(start - shift, 0), stop - shift, rule, guess)
        for start, stop, rule, guess in redactor.spans(context + text)
        if stop > shift
    ]


def _cut(text: str, spans: list[Span]) -> int:
    """Up to where the text can be recorded."""
    cut = len(text.rstrip(_OF_WORDS))
    begun = text.rfind(_PEM)
    if begun >= 0 and _PEM_END.search(text, begun) is None:
        cut = min(cut, begun)
    return min([cut, *(span.start for span in spans if span.stop > cut)])


def _given(
    redactor: Redactor, context: str, text: str, spans: list[Span], cut: int
) -> tuple[Streamed, str, list[Finding]]:
    said, found = redactor.replaced(text[:cut], [span for span in spans if span.stop <= cut])
    return Streamed((context + text[:cut])[-_CONTEXT_CHARS:], text[cut:]), said, found
