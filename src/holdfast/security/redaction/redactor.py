"""Secrets in data to be recorded, replaced by marks before the first byte is written.

A mark says what was there and makes repeats recognisable without revealing the secret:
``[secret:github_pat:7f3a]``; the last four digits come from a digest under a key that the store keeps.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast._lazy import lazy_pattern
from holdfast.errors import SecretFound, UsageError
from holdfast.model import BLOB_KEY
from holdfast.security.redaction.scanner import MARK_BEGIN, Scanner, SecretSpan

MODES = ("off", "mark", "block")
_FINGERPRINT_CHARS = 4
_NAME_FINGERPRINT_CHARS = 32
# Members that providers check or that connect events: without them a session could not continue.
_UNTOUCHED = frozenset({"signature", "thought_signature", "thoughtSignature", "encrypted_content", BLOB_KEY})
# Members that are ids by their nature: only rules that recognise a token by itself apply to them.
_IDS = frozenset(
    "id toolCallId tool_use_id tool_call_id call_id messageId sessionId session_id session run".split()  # noqa: SIM905 - words
)
# Numbers that are places in the log: none is a secret.
_PLACES = frozenset({"base", "covers", "covers_from", "epoch", "generation", "parent_seq", "seq", "seqs"})
# Only the session itself can write these.
_OWN_EVENTS = frozenset({"session_start", "opened", "closed"})
# References between sessions, waiting agents, calls and steps, in events that callers may write as well.
_TIES = {
    "forked": {"log", "root"},
    "merged": {"log", "root"},
    "suspended": {"token", "call", "above", "path"},
    "permission": {"call"},
    "resumed": {"token", "ids"},
    "step": {"step", "call", "parent", "answer"},
    "step_result": {"step"},
    "delegation": {"call", "child_run"},
    "delegation_complete": {"child_run"},
    "interrupted": {"calls", "not_run"},
}
_TELLING_NAME = lazy_pattern(
    r"(?i)pass(?:word|wd|phrase|code)|pwd|secret|token|credential|cookie|authorization"
    r"|(?:api|access|private|auth|signing|encryption|master|admin|account|service|session)[_-]?key"
    r"|^x-.*(?:key|auth)"
)
_LONG_KEY = 16
_ENVIRONMENT_NAME = re.compile(
    r"(?i)(?:^|_)(?:pass(?:word|wd|phrase)?|pwd|secrets?|tokens?|credentials?|cookie|auth|dsn|key"
    r"|api_?key|private_?key|access_?key|pat)(?:_|\d|$)|(?:password|secret|token|apikey)$"
)
_ENVIRONMENT_VALUE_MIN = 8


class Finding(msgspec.Struct, frozen=True):
    """A secret that was found: the rule, and the fingerprint that identifies it."""

    rule: str
    fingerprint: str


class RedactedData(NamedTuple):
    """Data that may be recorded; the very same object if there was nothing to replace."""

    data: dict[str, Any]
    found: list[Finding]
    unscanned: int = 0  # characters that were masked because there was no time to scan them
    spared: int = 0  # signatures that contain a known value and were left: providers refuse a changed one


class Redactor:
    """Replaces secrets, or refuses them. Any thread may use it."""

    def __init__(
        self,
        key: bytes | Callable[[], bytes],
        *,
        mode: str = "mark",
        scanner: Scanner | None = None,
        spares_model: bool = True,
    ) -> None:
        if mode not in MODES:
            raise UsageError(f"redaction {mode!r} is none of {', '.join(MODES)}")
        self.mode = mode
        self.spares_model = spares_model
        """True if the conversation of an open session keeps the original text."""
        self._key = key  # the key of fingerprints, or a function that returns it when the first secret is found
        self._scanner = scanner or Scanner()

    def fingerprint(self, secret: str, chars: int = _FINGERPRINT_CHARS) -> str:
        """Return four hexadecimal digits that are the same for the same secret in this store."""
        if self.mode == "block":
            return ""  # nothing is written, so nothing has to be recognised later
        if callable(self._key):
            self._key = self._key()
        import hmac  # it loads OpenSSL, and most of what is recorded holds no secret

        return hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256").hex()[:chars]

    def spans(self, text: str) -> list[SecretSpan]:
        """Return where the secrets in a text are."""
        return self._scanner.find(text).spans

    def mark(self, rule: str, secret: str, chars: int = _FINGERPRINT_CHARS) -> str:
        """Return the mark for a secret."""
        return f"{MARK_BEGIN}{rule}:{self.fingerprint(secret, chars)}]"

    def text(self, text: str) -> str:
        """Return a text with marks in place of secrets."""
        return self.replaced(text, self.spans(text))[0]

    def replaced(
        self, text: str, spans: list[SecretSpan], chars: int = _FINGERPRINT_CHARS
    ) -> tuple[str, list[Finding]]:
        """Return a text with marks at these places, and the findings."""
        pieces, found, at = [], [], 0
        for start, stop, rule, _ in spans:
            fingerprint = self.fingerprint(text[start:stop], chars)
            pieces += [text[at:start], f"{MARK_BEGIN}{rule}:{fingerprint}]"]
            found.append(Finding(rule, fingerprint[:_FINGERPRINT_CHARS]))
            at = stop
        return "".join([*pieces, text[at:]]), found

    def data(self, type: str, data: Mapping[str, Any]) -> RedactedData:
        """Return the data of an event with marks in place of secrets.

        With the mode "block" a secret, or a part that could not be scanned in time, raises
        SecretFound. The time depends on the length alone: beyond its budget the rest is masked completely
        except ids, and the event has the masked length in ``unscanned``.
        """
        given = dict(data) if not isinstance(data, dict) else data
        if type in _OWN_EVENTS:
            return RedactedData(given, [])
        ids, scanner = _IDS.union(_TIES.get(type, ())), self._scanner
        leaves = list(_leaves(given, "", ids, scanner))
        spared = sum(leaf.is_spared for leaf in leaves)
        found = scanner.find("".join([part for leaf in leaves for part in (leaf.lead, leaf.text, _TAIL)]))
        if not found.spans:
            return RedactedData(given, [], 0, spared)
        changed, findings = self._changed(leaves, found.spans)
        self.refuse(findings, unscanned=found.unscanned)
        if changed:
            given = _rebuilt(given, "", iter(range(len(leaves))), changed, scanner)
        if found.unscanned:
            given = {**given, "unscanned": found.unscanned}
        return RedactedData(given, findings, found.unscanned, spared)

    def name(self, name: str) -> tuple[str, list[Finding]]:
        """Return a name that connects events, with marks for the certain secrets in it.

        Their fingerprints are long: two names must never become one.
        """
        if self._scanner.is_clean(name.encode("utf-8", "replace")):
            return name, []
        spans = [span for span in self.spans(name) if not span.guess]
        return self.replaced(name, spans, _NAME_FINGERPRINT_CHARS)

    def check_name(self, name: str, what: str) -> None:
        """Raise SecretFound for a name that is a secret: with a mark it would name something else."""
        if found := self.name(name)[1]:
            raise SecretFound(
                f"{what} holds a secret",
                rules=sorted({one.rule for one in found}),
                remedy="Choose a name without it: names of things are recorded as they are.",
            )

    def is_clean(self, recorded: bytes) -> bool:
        """Return whether a quick check of the JSON of data shows that there is nothing to replace in it."""
        return self._scanner.is_clean(recorded)

    def refuse(self, findings: list[Finding], *, unscanned: int = 0) -> None:
        """Raise SecretFound if a secret was found and the mode is "block"."""
        if self.mode == "block" and findings:
            rules = sorted({finding.rule for finding in findings})
            raise SecretFound(f"what was to be recorded holds a secret: {', '.join(rules)}", rules=rules)
        if self.mode == "block" and unscanned:
            raise SecretFound("what was to be recorded could not be looked at in time", rules=[])

    def _changed(self, leaves: list[_Leaf], spans: list[SecretSpan]) -> tuple[dict[int, str], list[Finding]]:
        """Return the changed texts, by their number."""
        changed: dict[int, str] = {}
        findings: list[Finding] = []
        begins, ends = [span.start for span in spans], [span.stop for span in spans]
        at = 0
        for number, leaf in enumerate(leaves):
            start = at + len(leaf.lead)
            stop = start + len(leaf.text)
            first, last = bisect_right(ends, start), bisect_left(begins, stop)
            mine = [
                SecretSpan(max(low, start) - start, min(high, stop) - start, rule, guess)
                for low, high, rule, guess in spans[first:last]
                if not (leaf.is_id and guess) and not leaf.is_spared
            ]
            if mine:
                changed[number], found = self.replaced(leaf.text, mine)
                findings += found
            at = stop + len(_TAIL)
        return changed, findings


class _Leaf(NamedTuple):
    """One text in the data, and the prefix for scanning all texts together."""

    text: str
    lead: str = '"'
    is_id: bool = False
    is_spared: bool = False


_TAIL = '"\n'


def _leaves(value: Any, name: str, ids: frozenset[str], scanner: Scanner) -> Iterator[_Leaf]:
    """Yield every text in a value, in one order; names of members and numbers that may be secrets too."""
    if isinstance(value, str):
        lead = f'{name}: "' if name and _TELLING_NAME.search(name) else '"'
        yield _Leaf(value, lead, name in ids)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(key, str):
                if _is_telling(key, scanner):
                    yield _Leaf(key)
                if key not in _UNTOUCHED:
                    yield from _leaves(item, key, ids, scanner)
                elif isinstance(item, str) and scanner.knows(item):
                    yield _Leaf("", is_spared=True)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item, name, ids, scanner)
    elif _is_known(value, name, scanner):
        yield _Leaf(str(value))


def _rebuilt(value: Any, name: str, numbers: Iterator[int], changed: dict[int, str], scanner: Scanner) -> Any:
    """Return the value with the changed texts, in the order of :func:`_leaves`."""
    if isinstance(value, str):
        return changed.get(next(numbers), value)
    if isinstance(value, Mapping):
        found = {}
        for key, item in value.items():
            if not isinstance(key, str):
                found[key] = item
                continue
            named = changed.get(next(numbers), key) if _is_telling(key, scanner) else key
            if named in found:
                named = f"{named}#{len(found)}"  # two names may have the same mark; neither member is lost
            if key not in _UNTOUCHED:
                found[named] = _rebuilt(item, key, numbers, changed, scanner)
                continue
            if isinstance(item, str) and scanner.knows(item):
                next(numbers)
            found[named] = item
        return found
    if isinstance(value, (list, tuple)):
        return [_rebuilt(item, name, numbers, changed, scanner) for item in value]
    return changed.get(next(numbers), value) if _is_known(value, name, scanner) else value


def _is_telling(name: str, scanner: Scanner) -> bool:
    """Return whether the name of a member may be a secret: it is long, or contains a known value."""
    return len(name) >= _LONG_KEY or scanner.knows(name)


def _is_known(value: Any, name: str, scanner: Scanner) -> bool:
    """Return whether a number is a known value, and not a place in the log."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and name not in _PLACES and scanner.knows_number(str(value))


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables whose names indicate a secret."""
    return [
        value
        for name, value in environment.items()
        if len(value) >= _ENVIRONMENT_VALUE_MIN
        and _ENVIRONMENT_NAME.search(name)
        and not value.startswith(("/", "~", "./"))
    ]


# Secrets in streamed text: held back only until it is clear what they are.

# These end the streams of the same run, or of all runs of the session.
_ENDS_OF_RUN = frozenset(["user", "assistant", "turn_start", "turn_end", "agent_complete", "agent_error"])
_ENDS_OF_ALL = frozenset(["interrupted", "closed", "suspended"])

_CONTEXT_CHARS = 400
_HELD_CHARS_MAX = 16_384
# Secrets are made of ASCII; words of languages without spaces need not wait.
_OF_WORDS = "".join(map(chr, range(ord("!"), ord("~") + 1)))
_PLAIN_WORD = lazy_pattern(r"[\"'(*`]{0,3}[A-Za-z]{0,11}[\"')*`.,:;!?]{0,3}\Z")
_TELLING = lazy_pattern(
    r"(?i)(?:pass|pwd|secret|token|key|auth|cookie|bearer|basic|credential|://|login|\s-[a-z]\b)"
    r"[^\n]{0,48}\Z"
)
_TELLING_CHARS = 80
_PEM = "-----BEGIN"
_PEM_END = lazy_pattern(r"-----END[^\n]{0,100}-----")
_PEM_END_CHARS = 113


class Streamed(NamedTuple):
    """The progress of a stream: its last words, and the text that is not recorded yet."""

    context: str = ""
    held: str = ""
    due: int = 0
    """The length of ``held`` at which it is scanned again."""

    def recorded(self) -> Streamed:
        """Return the stream with nothing held back."""
        return Streamed((self.context + self.held)[-_CONTEXT_CHARS:])


NOTHING_STREAMED = Streamed()


def ends_stream(run: str | None, event: str, event_run: str | None) -> bool:
    """Return whether an event of this type and run ends what is streamed in ``run``; events of other runs do not."""
    return event in _ENDS_OF_ALL or (run == event_run and event in _ENDS_OF_RUN)


def feed(redactor: Redactor, before: Streamed, piece: str) -> tuple[Streamed, str, list[Finding]]:
    """Process the next piece of a stream; return its new state, and what may be recorded of it.

    The last word is held back if a secret may begin with it, and so is a private key that has not
    ended. Never more than 16 KiB are.
    """
    text = before.held + piece
    if len(text) < before.due and _goes_on(before.held, piece):
        return before._replace(held=text), "", []
    whole, shift = before.context + text, len(before.context)
    spans = redactor.spans(whole)
    start = len(whole.rstrip(_OF_WORDS))
    held = len(whole) if _is_plain(whole[:start], whole[start:]) else start
    begun = whole.rfind(_PEM)
    if begun >= 0 and _PEM_END.search(whole, begun) is None:
        held = min(held, begun)
    held = min([held, *(span.start for span in spans if span.stop > held)])
    cut = max(held - shift, 0)
    if len(text) - cut > _HELD_CHARS_MAX:
        cut = len(text)
    return _given(redactor, before.context, text, spans, cut)


def finish(redactor: Redactor, before: Streamed) -> tuple[str, list[Finding]]:
    """Return the held-back text, when nothing more comes, or when it cannot wait."""
    spans = redactor.spans(before.context + before.held)
    return _given(redactor, before.context, before.held, spans, len(before.held))[1:]


def _goes_on(held: str, piece: str) -> bool:
    """Return whether the held-back text cannot have ended with this piece.

    A word, or a private key, that comes letter by letter would otherwise be scanned once for each letter.
    """
    if held.startswith(_PEM) and _PEM_END.search(held[-_PEM_END_CHARS:] + piece) is None:
        return True
    return not piece.strip(_OF_WORDS)


def _is_plain(before: str, run: str) -> bool:
    """Return whether no secret begins with the word at the end."""
    return _PLAIN_WORD.match(run) is not None and (not run or _TELLING.search(before[-_TELLING_CHARS:]) is None)


def _given(
    redactor: Redactor, context: str, text: str, spans: list[SecretSpan], cut: int
) -> tuple[Streamed, str, list[Finding]]:
    whole, shift = context + text, len(context)
    pieces: list[str] = []
    found: list[Finding] = []
    at = shift
    for start, stop, rule, _ in spans:
        if shift < stop <= shift + cut:
            # It may have begun in text that is recorded already; its end counts.
            mark, one = redactor.replaced(whole[start:stop], [SecretSpan(0, stop - start, rule)])
            pieces += [whole[at : max(start, at)], mark]
            found += one
            at = stop
    said = "".join([*pieces, whole[at : shift + cut]])
    held = text[cut:]
    due = min(2 * len(held), _HELD_CHARS_MAX)
    return Streamed(whole[: shift + cut][-_CONTEXT_CHARS:], held, due), said, found
