"""The cost of scanning for secrets: in ordinary code and prose, in tool output, and per append."""

from __future__ import annotations

import sysconfig
import time
from pathlib import Path

import msgspec

import holdfast
from bench.figures import Line, line_of, median, micros, ratios_of
from holdfast.security import Scanner

__all__ = ["Redaction"]

_MIB = 1 << 20
_WORDS = ("what people and models say to each other is mostly words, one after another. " * 13)[:1000]
_ROOT = Path(__file__).parents[1]


class Redaction:
    """Milliseconds for each MiB of text, and a redacted append against a plain one.

    Output of tools, with a number in every line, is held to the mark of ordinary text.
    """

    ROUNDS = 3
    MARK = 60.0
    WORDS_MARK = 6.0

    def __init__(self, *, quick: bool) -> None:
        self._size = _MIB if quick else 4 * _MIB
        self._appends = 300 if quick else 2_000
        self._texts: dict[str, str] = {}
        self._spent: dict[str, list[float]] = {}
        self._plain: list[float] = []
        self._redacted: list[float] = []
        self._floor: list[float] = []
        self._words: list[float] = []

    def prepare(self, folder: str) -> None:
        """Prepare the texts: the standard library's source, our own with its pages, and a long log."""
        library = Path(sysconfig.get_path("stdlib"))
        self._texts = {
            "code of the standard library": self._text(sorted(library.glob("*.py"))),
            "our own code and pages": self._text(
                [*sorted((_ROOT / "src").rglob("*.py")), *sorted((_ROOT / "docs").rglob("*.md"))]
            ),
            "tool output: listings and logs": _listing(self._size),
        }
        self._spent = {name: [] for name in self._texts}

    def measure(self, folder: str) -> None:
        """Run one round."""
        scanner = Scanner(clock=lambda: 0.0)
        for name, text in self._texts.items():
            begin = time.process_time()  # nothing waits here, and others are at work
            scanner.find(text)
            self._spent[name].append((time.process_time() - begin) * 1000 / (len(text) / _MIB))
        self._plain.append(self._append(f"{folder}/plain", "off"))
        self._redacted.append(self._append(f"{folder}/redacted", "mark"))
        self._floor.append(self._encode_and_write(f"{folder}/floor"))
        self._words.append(self._append(f"{folder}/words", "mark", _WORDS))

    def lines(self) -> list[Line]:
        """Return the milliseconds themselves, as the mark is absolute."""
        found = [line_of(f"ms to look through a MiB: {name}", spent, self.MARK) for name, spent in self._spent.items()]
        ratios = [ours / floor for ours, floor in zip(self._redacted, self._plain, strict=True)]
        ours, floor = micros(median(self._redacted)), micros(median(self._plain))
        what = "append with redaction / without"
        found.append(line_of(what, ratios, None, ours=ours, floor=floor))
        ratios = ratios_of(self._words, self._floor)
        ours, floor = micros(median(self._words)), micros(median(self._floor))
        what = "append of 1 KB of words with redaction / encode and one write"
        return [*found, line_of(what, ratios, self.WORDS_MARK, ours=ours, floor=floor)]

    def _encode_and_write(self, path: str) -> float:
        encode = msgspec.json.Encoder().encode
        event = {"seq": 1, "timestamp": 1, "type": "user", "data": {"content": _WORDS}}
        with Path(path).open("ab", buffering=0) as file:
            begin = time.thread_time_ns()
            file.writelines(encode(event) + b"\n" for _ in range(self._appends))
            return (time.thread_time_ns() - begin) / self._appends

    def _append(self, folder: str, mode: str, words: str = "") -> float:
        config = {"redaction": {"mode": mode}}
        with holdfast.open(folder, config=config) as hf, hf.session("a") as session:
            session.user("first")
            begin = time.thread_time_ns()
            for number in range(self._appends):
                session.user(words or f"Message {number}: what do you think of the plan for Tuesday?")
            return (time.thread_time_ns() - begin) / self._appends

    def _text(self, places: list[Path]) -> str:
        text = "".join(place.read_text(errors="replace") for place in places)
        return text[: self._size]


def _listing(size: int) -> str:
    line = "-rw-r--r-- 1 user users {0:>8} Mar  4 05:06 src/module_{1}/handler_{1}.py\n"
    log = "2026-03-04T05:{2:02}:07.123Z INFO request id={0:08x} path=/items/{1} status=200 in 12ms\n"
    lines = [(log if n % 3 else line).format(n * 7919, n % 997, n % 60) for n in range(size // 60)]
    return "".join(lines)[:size]
