"""What was said in pieces, until the whole message is known."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Since", "Spoken"]

Since = Callable[[int], str]
"""What pieces that were told together say from an event on."""


class Spoken:
    """The pieces of messages that were told, by their kind: text or thinking."""

    def __init__(self) -> None:
        self._last = {"text": -1, "thinking": -1}
        # Each with the numbers of its first and its last event.
        self._pieces: dict[str, list[tuple[int, int, str, Since | None]]] = {
            "text": [],
            "thinking": [],
        }

    def add(self, text: str, kind: str, first: int, last: int, since: Since | None = None) -> None:
        """Words that came with some events; a message may begin at any of them."""
        if text:
            self._pieces[kind].append((first, last, text, since))
        self._last[kind] = last

    def reaches(self, kind: str, first: int) -> bool:
        """Whether something was said from an event on."""
        return self._last[kind] >= first

    def end(self, kind: str, last: int) -> None:
        """A message was told whole, with an event; with none if its number is less than 0."""
        if last > self._last[kind]:
            self._pieces[kind].clear()
            self._last[kind] = last

    def rest(self, whole: str, kind: str, first: int) -> str:
        """What the pieces from an event on lack of their message, which is known now.

        A word that may be the beginning of a secret is recorded only when it is whole.
        """
        told = ""
        for begun, last, text, since in self._pieces[kind]:
            if begun >= first:
                told += text
            elif since is not None and last >= first:
                told += since(first)
        self._pieces[kind].clear()
        if whole.startswith(told):
            return whole[len(told) :]
        if whole in told:
            return ""
        # Words of others may be among them, and pieces may be lost: rather twice than never.
        common = range(min(len(whole), len(told)), -1, -1)
        return whole[next(size for size in common if told.endswith(whole[:size])) :]
