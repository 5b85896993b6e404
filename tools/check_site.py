"""Refuse a built documentation site that loads anything from another host, or cannot be searched from disk.

Reading the manual must work without a network and tell nobody. Links a reader may click are fine;
scripts, styles, fonts, images and frames from elsewhere are not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

OUTSIDE = re.compile(r"\s*(?:[a-z]+:)?//", re.IGNORECASE)
CSS_REFERENCE = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
# The theme loads this from another host as soon as a page has such a block.
FETCHED_ON_DEMAND = "mermaid"


class PageReader(HTMLParser):
    """Collects what a browser would load from another host when it opens one page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Check one element."""
        values = {name: value or "" for name, value in attrs}
        loaded = [values.get("src", ""), values.get("srcset", ""), values.get("data", "")]
        if tag == "link" and values.get("rel") not in {"canonical", "edit", "next", "prev"}:
            loaded.append(values.get("href", ""))
        self.found += [f"<{tag}> loads {address}" for address in loaded if OUTSIDE.match(address)]
        self.found += css_references(values.get("style", ""))
        if FETCHED_ON_DEMAND in values.get("class", "").split():
            self.found.append(f"a {FETCHED_ON_DEMAND} block makes the theme load a script")


def css_references(text: str) -> list[str]:
    """Return what a style sheet would load from another host."""
    return [f"style loads {address}" for address in CSS_REFERENCE.findall(text)]


def outside_requests(path: Path) -> Iterator[str]:
    """Yield what one file of the site would load from another host."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        yield from css_references(text)
    else:
        reader = PageReader()
        reader.feed(text)
        yield from reader.found


def main(arguments: list[str]) -> int:
    """Check a built site; return 1 if it loads anything from another host."""
    root = Path(arguments[0] if arguments else "site")
    files = [path for path in sorted(root.rglob("*")) if path.suffix in {".html", ".css"}]
    found = [f"{path}: {text}" for path in files for text in outside_requests(path)]
    search = root / "search.js"
    if files and "window.Worker" not in (search.read_text("utf-8") if search.exists() else ""):
        found.append(f"{root}: search.js lacks the search of a site that is opened from disk; tools/disk_search.py")
    for text in found:
        print(text)
    print(f"site: {len(files)} files, {len(found)} faults")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
