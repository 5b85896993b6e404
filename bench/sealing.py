"""The cost of sealing: appends and loads of a sealed session against those of a plain one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import holdfast
from bench.figures import Line, alternated, line_of, median, micros, millis
from bench.workload import record, step

__all__ = ["Sealing"]

_SESSION = "sealed-or-not"
_QUIET = {"autosave_ms": 0, "snapshot_ms": 0}


class Sealing:
    """Both kinds of session in one process, in turn, under the same load of the machine."""

    ROUNDS = 3
    APPEND_MARK = 2.0
    LOAD_MARK = 2.5

    def __init__(self, *, quick: bool) -> None:
        self._count = 2_000 if quick else 10_000
        self._loads = 5
        self._spent: dict[str, list[tuple[float, float]]] = {}

    def measure(self, folder: str) -> None:
        """Run one round."""
        key = os.urandom(32)
        plain = holdfast.open(os.path.join(folder, f"plain-{key.hex()[:8]}"))
        sealed = holdfast.open(os.path.join(folder, f"sealed-{key.hex()[:8]}"), key=key, seal=True)
        with plain, sealed:
            self._note("append", self._append(plain, sealed))
            for hf in (plain, sealed):
                _drop_snapshots(hf)
            for name, load in _LOADS.items():
                works = [_work(load, hf) for hf in (plain, sealed)]
                first, second = alternated(self._loads, *works)
                self._note(name, (first, second))

    def _append(self, plain: holdfast.Holdfast, sealed: holdfast.Holdfast) -> tuple[float, float]:
        clock = time.perf_counter_ns
        spent: tuple[list[int], list[int]] = ([], [])
        sessions = [hf.session(_SESSION, **_QUIET) for hf in (plain, sealed)]
        calls: list[Any] = [None, None]
        for session in sessions:
            session.user("the first event opens the file")
        for index in range(self._count):
            event = step(index)
            for which, session in enumerate(sessions):
                begin = clock()
                calls[which] = record(session, event, calls[which])
                spent[which].append(clock() - begin)
        for session in sessions:
            session.close()
        return median(spent[0]), median(spent[1])

    def _note(self, name: str, spent: tuple[float, float]) -> None:
        self._spent.setdefault(name, []).append(spent)

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        found = []
        for name, pairs in self._spent.items():
            plain, sealed = median([one for one, _ in pairs]), median([one for _, one in pairs])
            show = micros if name == "append" else millis
            mark = self.APPEND_MARK if name == "append" else _MARKS.get(name)
            what = f"sealed {name} p50" if name == "append" else f"sealed load {self._count:,}: {name}"
            ratios = [one / other for other, one in pairs]
            found.append(line_of(f"{what} (the same, plain)", ratios, mark, ours=show(sealed), floor=show(plain)))
        return found


def _open_messages(hf: holdfast.Holdfast) -> None:
    with hf.session(_SESSION, read_only=True) as session:
        session.messages("anthropic")


def _work(load: Callable[[holdfast.Holdfast], object], hf: holdfast.Holdfast) -> Callable[[], Any]:
    return lambda: load(hf)


def _drop_snapshots(hf: holdfast.Holdfast) -> None:
    documents = hf.store.documents(f"sessions/{_SESSION}")
    for name in documents.names("snapshots/"):
        documents.delete(name)


_LOADS: dict[str, Callable[[holdfast.Holdfast], object]] = {
    "the session with its messages": _open_messages,
    "hf.recover(id)": lambda hf: hf.recover(_SESSION),
    "list(hf.events(id)), all data decoded": lambda hf: [e.data for e in hf.events(_SESSION)],
    "list(hf.events(id)), data left raw": lambda hf: list(hf.events(_SESSION)),
}
_MARKS = {
    "the session with its messages": Sealing.LOAD_MARK,
    "hf.recover(id)": Sealing.LOAD_MARK,
    "list(hf.events(id)), all data decoded": Sealing.LOAD_MARK,
}
