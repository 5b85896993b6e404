"""Secrets in text that comes in pieces: held back only until it is clear what they are."""

from __future__ import annotations

import re
from typing import NamedTuple

from holdfast.security._redact import Finding, Redactor
from holdfast.security._redact_scan import Span

__all__ = ["NOTHING_STREAMED", "Streamed", "ends_stream", "feed", "finish"]

# Nothing more comes after these of what the same run streamed, or any run of the session.
_ENDS_OF_RUN = frozenset(
    ["user", "assistant", "turn_start", "turn_end", "agent_complete", "agent_error"]
)
_ENDS_OF_ALL = frozenset(["interrupted", "closed", "suspended"])

_CONTEXT_CHARS = 400
_HELD_CHARS_MAX = 16_384
# Secrets are made of ASCII; words of languages without blanks need not wait.
_OF_WORDS = "".join(map(chr, range(ord("!"), ord("~") + 1)))
_PLAIN_WORD = re.compile(r"[\"'(*`]{0,3}[A-Za-z]{0,11}[\"')*`.,:;!?]{0,3}\Z")
_TELLING = re.compile(
    r"(?i)(?:pass|pwd|secret|token|key|auth|cookie|bearer|basic|credential|://|login|\s-[a-z]\b)"
    r"[^\n]{0,48}\Z"
)
_TELLING_CHARS = 80
_PEM = "-----BEGIN"
_PEM_END = re.compile(r"-----END[^\n]{0,100}-----")


class Streamed(NamedTuple):
    """How far a stream has come: what was said last, and what is not recorded yet."""

    context: str = ""
    held: str = ""

    def recorded(self) -> Streamed:
        """The same with nothing held back."""
        return Streamed((self.context + self.held)[-_CONTEXT_CHARS:])


NOTHING_STREAMED = Streamed()


def ends_stream(run: str | None, event: str, event_run: str | None) -> bool:
    """Whether an event of this type and run ends what is streamed in ``run``.

    What other runs do at the same time ends nothing: a secret may go on after it.
    """
    return event in _ENDS_OF_ALL or (run == event_run and event in _ENDS_OF_RUN)


def feed(redactor: Redactor, before: Streamed, piece: str) -> tuple[Streamed, str, list[Finding]]:
    """The next piece of a stream: where it stands now, and what may be recorded of it.

    The last word is kept back if a secret may begin with it, and so is a private key that has not
    ended. Never more than 16 KiB are.
    """
    text = before.held + piece
    spans = redactor.spans(before.context + text)
    cut = _cut(before.context, text, spans)
    if len(text) - cut > _HELD_CHARS_MAX:
        cut = len(text)
    return _given(redactor, before.context, text, spans, cut)


def finish(redactor: Redactor, before: Streamed) -> tuple[str, list[Finding]]:
    """What was held back, when nothing more comes, or when it cannot be waited for."""
    spans = redactor.spans(before.context + before.held)
    return _given(redactor, before.context, before.held, spans, len(before.held))[1:]


def _cut(context: str, text: str, spans: list[Span]) -> int:
    """Up to where the text can be recorded."""
    whole = context + text
    shift = len(context)
    start = len(whole.rstrip(_OF_WORDS))
    held = len(whole) if _is_plain(whole[:start], whole[start:]) else start
    begun = whole.rfind(_PEM)
    if begun >= 0 and _PEM_END.search(whole, begun) is None:
        held = min(held, begun)
    held = min([held, *(span.start for span in spans if span.stop > held)])
    return max(held - shift, 0)


def _is_plain(before: str, run: str) -> bool:
    """Whether the word at the end is one that no secret begins with."""
    if _PLAIN_WORD.match(run) is None:
        return False
    return not run or _TELLING.search(before[-_TELLING_CHARS:]) is None


def _given(
    redactor: Redactor, context: str, text: str, spans: list[Span], cut: int
) -> tuple[Streamed, str, list[Finding]]:
    whole, shift = context + text, len(context)
    pieces: list[str] = []
    found: list[Finding] = []
    at = shift
    for start, stop, rule, _ in spans:
        if shift < stop <= shift + cut:
            # It may have begun in what is recorded already; what tells is its end.
            mark, one = redactor.replaced(whole[start:stop], [Span(0, stop - start, rule)])
            pieces += [whole[at : max(start, at)], mark]
            found += one
            at = stop
    said = "".join([*pieces, whole[at : shift + cut]])
    return Streamed(whole[: shift + cut][-_CONTEXT_CHARS:], text[cut:]), said, found
