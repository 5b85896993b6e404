"""The colours of the app: told apart with any sight of colours, and readable on their ground.

Words and signs say the same everywhere, so nothing depends on a colour alone.
"""

from __future__ import annotations

from rich.terminal_theme import TerminalTheme
from textual.theme import Theme

__all__ = ["DARK", "DARK_ANSI", "LIGHT", "LIGHT_ANSI"]

DARK = Theme(
    name="holdfast-dark",
    primary="#56b4e9",
    secondary="#009e73",
    accent="#e69f00",
    warning="#f0e442",
    error="#d55e00",
    success="#56b4e9",
    foreground="#e6e6e6",
    background="#15181c",
    surface="#1c2026",
    panel="#262c34",
    dark=True,
    variables={"faint": "#a3adb8", "block-cursor-foreground": "#0c1116"},
)
LIGHT = Theme(
    name="holdfast-light",
    primary="#0072b2",
    secondary="#00664a",
    accent="#7d4a00",
    warning="#7a6a00",
    error="#b34700",
    success="#0072b2",
    foreground="#1a1a1a",
    background="#fafafa",
    surface="#f0f1f3",
    panel="#e2e5ea",
    dark=False,
    variables={"faint": "#545d69", "block-cursor-foreground": "#ffffff"},
)


def _ansi(ground: str, letters: str, *colours: str) -> TerminalTheme:
    """The sixteen colours of pages and code that name one: black to white, bright as they are."""
    triples = [_triple(colour) for colour in colours]
    return TerminalTheme(_triple(ground), _triple(letters), triples, triples)


def _triple(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour)
    return red, green, blue


DARK_ANSI = _ansi(
    "15181c",
    "e6e6e6",
    *("8f99a5", "ff8c5a", "2fc79a", "f0e442", "6fb7ff", "e59ac6", "56b4e9", "e6e6e6"),
)
LIGHT_ANSI = _ansi(
    "fafafa",
    "1a1a1a",
    *("1a1a1a", "b34700", "00664a", "7a5200", "0055a5", "9a2f6c", "005f8a", "545d69"),
)
