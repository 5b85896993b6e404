"""Markdown on a terminal: every word of it is shown, and none is obeyed.

Rich passes escape sequences, C1 controls and bidi marks on as they are, and Markdown turns ``&#27;`` into the
character that it names: text is made harmless before it is laid out, as widths change with it, and again after it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.theme import Theme

from holdfast.security import neutralise, neutralise_line

_TAB = 4

# Headings and lists are shown by weight and lines: no colour fits both a dark and a light background.
MARKDOWN_THEME = Theme(
    {
        **{f"markdown.h{level}": "bold underline" for level in (1, 2)},
        **{f"markdown.h{level}": "bold" for level in (3, 4, 5, 6)},
        **{f"markdown.{part}": "bold" for part in ("code", "item.bullet", "item.number")},
        **{f"markdown.{part}": "underline" for part in ("link", "link_url")},
        **{f"markdown.table.{part}": "bold" for part in ("header", "border")},
        "markdown.block_quote": "italic",
        "markdown.hr": "",
    }
)


def paragraphs(text: str) -> str:
    """Return text with its newlines; tabs become spaces."""
    return neutralise(text.replace("\r\n", "\n")).expandtabs(_TAB)


def markdown(text: str, *, dark: bool = True) -> RenderableType:
    """Return rendered Markdown that shows every word: tags, references, pictures and titles are text."""
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown  # takes longer to load than most screens to show

    parser = MarkdownIt().enable(["strikethrough", "table"])
    # Each of these would hide words of the text from who reads it.
    parser.disable(["html_block", "html_inline", "reference"])
    shown: list[Markdown] = []
    is_over = True
    for token in parser.parse(text):
        if is_over:
            shown.append(Markdown("", code_theme="ansi_dark" if dark else "ansi_light", hyperlinks=False))
            shown[-1].parsed = []
        is_over = token.level == 0 and token.nesting <= 0
        # Rich shows a name only by its colours; one that it does not know would be lost.
        if token.type == "fence" and not _is_language(token.info):
            named = parser.parse("name")
            for child in named[1].children or ():
                child.content = token.info.strip()
            shown[-1].parsed += named
        for child in token.children or ():
            given = [str(value) for value in child.attrs.values() if value]
            if child.type == "image":
                child.type, child.tag, child.children = "text", "", None
                child.content = f"[{' '.join(filter(None, (child.content, *given)))}]"
            elif child.type == "link_open":
                child.attrs["href"] = " ".join(given)
        shown[-1].parsed.append(token)
    return _Blocks(shown)


class _Blocks:
    """Blocks set apart by one empty line each; Rich sets some apart by up to three, above or below."""

    def __init__(self, blocks: Sequence[RenderableType]) -> None:
        self._blocks = blocks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        is_first = True
        for block in self._blocks:
            lines = console.render_lines(block, options, pad=False)
            full = [number for number, line in enumerate(lines) if any(one.text.strip() for one in line)]
            if not full:
                continue
            for line in [*[[]] * (not is_first), *lines[full[0] : full[-1] + 1]]:
                yield from line
                yield Segment.line()
            is_first = False


def harmless_lines(renderable: RenderableType, width: int) -> list[list[Segment]]:
    """Render with Rich, in lines of about ``width`` columns, without sequences that control the terminal."""
    options = _console().options.update(width=max(width, 1), height=None)
    return [_harmless(line) for line in _console().render_lines(renderable, options, pad=False)]


def _harmless(segments: Iterable[Segment]) -> list[Segment]:
    shown = (segment for segment in segments if not segment.control and segment.text)
    return [Segment(neutralise_line(segment.text), _unlinked(segment.style)) for segment in shown]


def _unlinked(style: Style | None) -> Style | None:
    """Return the look without a link or anything else that acts."""
    if style is None or not (style.link or style.meta):
        return style
    return style.clear_meta_and_links()


def _is_language(name: str) -> bool:
    """Return whether the name after a fence changes how the code looks."""
    from rich.syntax import Syntax

    return not name.strip() or Syntax("", name.strip()).lexer is not None


@cache
def _console() -> Console:
    return Console(
        theme=MARKDOWN_THEME,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        width=80,
    )
