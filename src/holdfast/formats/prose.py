"""Markdown as harmless HTML: text, lists, tables, code, and links with visible targets.

Raw HTML is shown as text, nothing is loaded from anywhere, and a link is http, https or mailto. The web app and the
export to HTML share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from holdfast.security import neutralise

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_CHARS_MAX = 100_000  # a longer text is shown as plain text
_SCHEMES = ("http://", "https://", "mailto:")


def markdown_html(text: str) -> str:
    """Return the text as HTML. Never raises; what is not Markdown stays text."""
    safe = neutralise(text)
    if len(safe) <= _CHARS_MAX:
        try:
            # The renderer escapes all text, and makes only the elements of its own rules.
            return str(_parser().render(safe))
        except (RecursionError, ValueError, IndexError):
            pass  # shown as plain text, then
    return f'<pre class="plain">{escape(safe)}</pre>'


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
    parser.enable(["table", "strikethrough"]).disable(["html_block", "html_inline", "reference"])
    parser.validateLink = lambda url: url.strip().lower().startswith(_SCHEMES)  # type: ignore[method-assign]  # as its documentation says to
    parser.add_render_rule("link_open", _open_link)
    parser.add_render_rule("image", _name_image)
    parser.add_render_rule("fence", _code)
    parser.add_render_rule("code_block", _code)
    # Headings of a message are below those of the page.
    parser.add_render_rule("heading_open", lambda _, tokens, index, *__: f'<h{_level(tokens[index])} class="said">')
    parser.add_render_rule("heading_close", lambda _, tokens, index, *__: f"</h{_level(tokens[index])}>")
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll"><table class="plain">')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    parser.add_render_rule("th_open", lambda *_: "<th>")  # without a style attribute
    parser.add_render_rule("td_open", lambda *_: "<td>")
    return parser


def _open_link(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    attrs = tokens[index].attrs
    url, title = escape(str(attrs.get("href", ""))), escape(str(attrs.get("title", "")))
    shown = f"{title}: {url}" if title else url
    return f'<a href="{url}" target="_blank" rel="noopener noreferrer nofollow" title="{shown}">'


def _name_image(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    """Name a remote image instead of loading it: its server would learn who reads."""
    token = tokens[index]
    where = " ".join(str(token.attrs[name]) for name in ("src", "title") if name in token.attrs)
    return f'<span class="picture">[{escape(token.content or "picture")}: {escape(where)}]</span>'


def _code(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    token = tokens[index]
    language = (token.info or "").strip()
    head = f"<figcaption>{escape(language)}</figcaption>" if language else ""
    return (
        f'<figure class="code">{head}<pre tabindex="0" role="group" '
        f'aria-label="Code">{escape(token.content)}</pre></figure>'
    )


def _level(token: Token) -> int:
    return min(int(token.tag[1:]) + 2, 6)
