"""Two texts next to each other, each broken into lines of half the width."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from holdfast.apps.shown.ink import cells
from holdfast.apps.shown.page import Page, Span
from holdfast.security import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Half", "apart", "broken", "print_halves"]

_GAP = "  "
_HALF_MIN = 12
_SAME_CHARS_MAX = 80
_BEFORE_CHARS = 30


class Half(NamedTuple):
    """What stands on one side: a label in front of the first line, and texts with their styles."""

    label: str
    texts: Sequence[Span]


def print_halves(screen: Page, pairs: Sequence[tuple[Half, Half]], lines_max: int | None) -> None:
    """Pairs one below the other; of each text at most so many lines, which end with a "…" then."""
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
                Span(ours.text + " " * (width - cells(ours.text)), ours.style),
                Span(_GAP + right.rjust(labels[1]) + _GAP, "faint"),
                theirs,
            )
            first = False


def _lines(
    pair: tuple[Half, Half], width: int, lines_max: int | None
) -> Iterator[tuple[Span, Span]]:
    """The lines of both; what comes second on one side is beside what comes second on the other."""
    nothing = Span("")
    for texts in zip_longest(*(half.texts for half in pair), fillvalue=nothing):
        sides = [
            [Span(line, text.style) for line in broken(text.text, width, lines_max)]
            for text in texts
        ]
        yield from zip_longest(*sides, fillvalue=nothing)


def apart(a: str, b: str) -> tuple[str, str]:
    """Two texts, without most of what both begin with."""
    same = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    same = min(len(a), len(b)) if same is None else same
    if a == b or same <= _SAME_CHARS_MAX:
        return a, b
    start = a.rfind(" ", 0, same - _BEFORE_CHARS) + 1 or same - _BEFORE_CHARS
    return f"… {a[start:]}", f"… {b[start:]}"


def broken(text: str, width: int, lines_max: int | None = None) -> list[str]:
    """A text in lines that are no wider, words kept whole where they fit."""
    lines: list[str] = []
    for paragraph in neutralise(text).expandtabs(4).strip().split("\n"):
        lines += _wrapped(paragraph, width) if paragraph.strip() else []
        if lines_max is not None and len(lines) > lines_max:
            last = lines[lines_max - 1]
            while cells(last) > width - 2:
                last = last[:-1]
            return [*lines[: lines_max - 1], f"{last.rstrip()} …"]
    return lines


def _wrapped(paragraph: str, width: int) -> list[str]:
    lines, line, used = [], "", 0
    for word in paragraph.split(" "):
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
    """A word; in parts if it is wider than a line."""
    while cells(word) > width:
        end, used = 0, 0
        while used + cells(word[end]) <= width:
            used += cells(word[end])
            end += 1
        yield word[: end or 1]
        word = word[end or 1 :]
    yield word
