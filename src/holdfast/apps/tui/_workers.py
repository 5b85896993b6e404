"""From a thread back to the app: what was found is shown if someone still wants to see it.

A thread that reads a slow store may end when its screen was left long ago, or the app with it. Then
there is nothing to show it on, and nobody to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from textual._context import NoActiveAppError
from textual.css.query import NoMatches
from textual.dom import DOMNode

SLOW_S = 0.4  # after which one is told that something is under way


def is_there(node: DOMNode) -> bool:
    """Whether a screen or widget is in use: mounted, and neither it nor the app is being left."""
    return node.is_attached and node.is_running and not node._pruning  # noqa: SLF001 - no other way


def hand_over(node: DOMNode, act: Callable[..., object], *values: Any) -> None:
    """Call ``act`` with what a thread found, on the app's own loop, and wait until it was called.

    Nothing happens if ``node``, who asked for it, was left meanwhile. To be called in a thread.
    """

    def take() -> None:
        if not is_there(node):
            return
        try:
            # What it gives may be awaited, but not here: a dialog ends when someone answers it.
            act(*values)
        except NoMatches:
            if is_there(node):
                raise

    try:
        node.app.call_from_thread(take)
    except (CancelledError, NoActiveAppError):
        return
    except RuntimeError:
        if node.is_attached:  # else the app's loop has ended
            raise
