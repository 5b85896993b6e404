"""Two sessions side by side, as a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from holdfast.apps.render.page import Canvas, Column, Piece, Span, cells
from holdfast.apps.render.words import counted
from holdfast.replay import Change, Comparison, TurnPair, TurnView, as_text
from holdfast.security import neutralise

_USES = (Column("NAME", flexible=True), Column("A", flexible=True), Column("B", flexible=True))
_CHANGES = (Column("WHAT", flexible=True), *_USES[1:], Column("", optional=True))
_TEXT_CHARS = 300
_LINES_MAX = 8


def kept_value(kind: str, value: Any) -> str:
    """Return the value of a variable, a memory entry or a todo as text; a todo by its status."""
    if kind != "todo" or not isinstance(value, dict):
        return as_text(value)
    told = [value.get("status"), value.get("priority")]
    return ", ".join(str(one) for one in told if one not in (None, "medium")) or "(no status)"


def print_comparison(page: Canvas, found: Comparison, *, full: bool, name: Callable[[str], str] = str) -> None:
    """Print where two sessions parted, their turns side by side, and other differences; sessions by their ``name``."""
    _print_sides(page, found, name)
    if found.same:
        page.line("Nothing differs.")
    if found.turns:
        _heading(page, "Turns")
        print_halves(page, [_halves(pair) for pair in found.turns], None if full else _LINES_MAX)
    rows: list[list[Piece]]
    if found.tools:
        _heading(page, "Tools")
        rows = [
            [Span(use.tool, "tool"), _calls(use.a, use.a_failed), _calls(use.b, use.b_failed)] for use in found.tools
        ]
        page.table(_USES, rows)
    if found.files:
        _heading(page, "Files")
        rows = [[Span(use.path, "name"), ", ".join(use.a), ", ".join(use.b)] for use in found.files]
        page.table(_USES, rows)
    _print_changes(page, found.changes)


def _print_sides(page: Canvas, found: Comparison, name: Callable[[str], str]) -> None:
    for letter, side in (("A", found.a), ("B", found.b)):
        cost = "" if side.cost is None else f", ${side.cost:.4f}"
        figures = f"  {counted(side.turns, 'turn')}, {side.tokens:,} tokens{cost} since"
        who = (Span(f"{letter}  ", "strong"), Span(name(side.session_id), "name"), f"  {side.title or '(no title)'}")
        page.line(*who, Span(figures, "faint"), hang=3)
    ancestor = found.ancestor
    if ancestor is None:
        page.line(Span("   They have no event in common.", "faint"))
        return
    of = Span(f" of {name(ancestor.session_id)}, {counted(ancestor.turns, 'turn')}", "faint")
    page.line(Span("   In common: events up to ", "faint"), str(ancestor.seq), of, hang=3)


def _heading(page: Canvas, text: str) -> None:
    page.line()
    page.line(Span(text, "strong"))


def _halves(pair: TurnPair) -> tuple[Half, Half]:
    """Return the question, the work and the answer of each side, one below the other."""
    a, b = pair.a, pair.b
    answers = (a.answer if a else "", b.answer if b else "")
    same = answers[0] == answers[1]
    asked = "user" if pair.same_question else "warning"
    left, right = (
        Half(str(turn.number) if turn else "", _turn_spans(turn, answer, asked, same=same))
        for turn, answer in zip((a, b), apart(*answers), strict=True)
    )
    return left, right


def _turn_spans(turn: TurnView | None, answer: str, asked: str, *, same: bool) -> list[Span]:
    if turn is None:
        return []
    tools = f"→ {', '.join(dict.fromkeys(turn.tools))}" if turn.tools else ""
    return [Span(turn.user or "(goes on)", asked), Span(tools, "tool"), Span(answer, "faint" if same else "")]


def _calls(count: int, failed: int) -> str:
    if not count:
        return ""
    return counted(count, "call") + (f", {failed} failed" if failed else "")


def _print_changes(page: Canvas, changes: list[Change]) -> None:
    if not changes:
        return
    _heading(page, "Memory, variables and todos")
    rows: list[list[Piece]] = [
        [
            Span(f"{one.kind} {one.name}", "name"),
            Span(_value(one, one.a, one.a_did), _did_style(one.a_did)),
            Span(_value(one, one.b, one.b_did), _did_style(one.b_did)),
            Span("conflict" if one.conflict else "", "warning"),
        ]
        for one in changes
    ]
    page.table(_CHANGES, rows)


def _value(change: Change, value: Any, did: str) -> str:
    if did == "removed":
        return "(removed)"
    return "" if value is None and did == "kept" else kept_value(change.kind, value)[:_TEXT_CHARS]


def _did_style(did: str) -> str:
    return {"set": "good", "removed": "bad"}.get(did, "faint")


# Two texts next to each other, each broken into lines of half the width.
_GAP = "  "
_HALF_MIN = 12
_SAME_CHARS_MAX = 80
_BEFORE_CHARS = 30
_WORD = re.compile(r"\S+")
_WORDS_MAX = 1_000  # of a side; comparing more takes too long
_ALIKE_MIN = 0.3  # of texts that share less, marks would be everywhere


class Half(NamedTuple):
    """One side of a comparison: a label in front of the first line, and texts with their styles."""

    label: str
    texts: Sequence[Span]


def print_halves(screen: Canvas, pairs: Sequence[tuple[Half, Half]], lines_max: int | None) -> None:
    """Print pairs one below the other; long texts are cut after a number of lines, with "…"."""
    labels = [max((len(pair[side].label) for pair in pairs), default=0) for side in (0, 1)]
    room = screen.columns - sum(labels) - 3 * len(_GAP)
    width = max(room // 2, _HALF_MIN)
    for number, pair in enumerate(pairs):
        if number:
            screen.line()
        first = True
        for ours, theirs in _lines(pair, width, lines_max):
            left, right = (half.label if first else "" for half in pair)
            screen.line(
                Span(left.rjust(labels[0]) + _GAP, "faint"),
                *ours,
                " " * (width - cells("".join(span.text for span in ours))),
                Span(_GAP + right.rjust(labels[1]) + _GAP, "faint"),
                *theirs,
            )
            first = False


def _lines(
    pair: tuple[Half, Half], width: int, lines_max: int | None
) -> Iterator[tuple[Sequence[Span], Sequence[Span]]]:
    """Yield the lines of both; what comes second on one side is beside what comes second on the other."""
    for texts in zip_longest(*(half.texts for half in pair), fillvalue=Span("")):
        sides = [broken(text.text, width, lines_max) for text in texts]
        differ = _differing(*sides) if all(sides) else (frozenset(), frozenset())
        marked = [
            [_marked(line, text.style, style, {place for at, place in found if at == number}) for number, line in each]
            for each, text, style, found in zip(map(enumerate, sides), texts, ("bad", "good"), differ, strict=True)
        ]
        yield from zip_longest(*marked, fillvalue=())


Place = tuple[int, int]  # of a word: its line, and where it begins there


def _differing(a: list[str], b: list[str]) -> tuple[frozenset[Place], frozenset[Place]]:
    """Return the words that only one of two texts has; none where they have little in common, or are very long."""
    words = [
        [(number, found.start(), found[0]) for number, line in enumerate(side) for found in _WORD.finditer(line)]
        for side in (a, b)
    ]
    if max(map(len, words)) > _WORDS_MAX:
        return frozenset(), frozenset()
    from difflib import SequenceMatcher

    ours, theirs = ([word for _, _, word in side] for side in words)
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    if matcher.ratio() < _ALIKE_MIN:
        return frozenset(), frozenset()
    found: tuple[set[Place], set[Place]] = (set(), set())
    for kind, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if kind != "equal":
            found[0].update((line, at) for line, at, _ in words[0][a_from:a_to])
            found[1].update((line, at) for line, at, _ in words[1][b_from:b_to])
    return frozenset(found[0]), frozenset(found[1])


def _marked(line: str, style: str, differs: str, places: set[int]) -> list[Span]:
    """Return a line of which the words that begin at some places have another style."""
    spans, done = list[Span](), 0
    for word in _WORD.finditer(line):
        if word.start() in places:
            spans += [Span(line[done : word.start()], style), Span(word[0], differs)]
            done = word.end()
    return [*spans, Span(line[done:], style)]


def apart(a: str, b: str) -> tuple[str, str]:
    """Return two texts without most of their common beginning."""
    same = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    same = min(len(a), len(b)) if same is None else same
    if a == b or same <= _SAME_CHARS_MAX:
        return a, b
    start = a.rfind(" ", 0, same - _BEFORE_CHARS) + 1 or same - _BEFORE_CHARS
    return f"… {a[start:]}", f"… {b[start:]}"


def broken(text: str, width: int, lines_max: int | None = None) -> list[str]:
    """Return a text in lines that are no wider, words kept whole where they fit."""
    lines: list[str] = []
    for paragraph in neutralise(text).expandtabs(4).strip("\n").rstrip().split("\n"):
        lines += _wrapped(paragraph, width) if paragraph.strip() else []
        if lines_max is not None and len(lines) > lines_max:
            last = lines[lines_max - 1]
            # Room for the sign that says that something is missing.
            while cells(last) > width - 2:
                last = last[:-1]
            return [*lines[: lines_max - 1], f"{last.rstrip()} …"]
    return lines


def _wrapped(paragraph: str, width: int) -> list[str]:
    # Continuation lines are indented like the first, if there is room for that.
    bare = paragraph.lstrip(" ")
    indent = " " * (len(paragraph) - len(bare))
    if 2 * len(indent) > width:
        indent = ""
    if indent:
        return [indent + line for line in _wrapped(bare, width - len(indent))]
    lines, line, used = [], "", 0
    for word in bare.split(" "):
        for piece in _pieces(word, width):
            wide = cells(piece)
            space = 1 if line else 0
            if line and used + space + wide > width:
                lines.append(line)
                line, used, space = "", 0, 0
            line += " " * space + piece
            used += space + wide
    return [*lines, line]


def _pieces(word: str, width: int) -> Iterator[str]:
    """Yield a word; in parts if it is wider than a line."""
    while cells(word) > width:
        end, used = 0, 0
        while used + cells(word[end]) <= width:
            used += cells(word[end])
            end += 1
        yield word[: end or 1]
        word = word[end or 1 :]
    yield word
