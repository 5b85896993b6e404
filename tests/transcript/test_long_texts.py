"""What is too long to be shown at once is named, with the way to all of it."""

from __future__ import annotations

import re

import pytest


@pytest.fixture(scope="module")
def lengthy(shelf):
    """A session with texts whose last words no surface shows at first."""
    with shelf.hf.session("lengthy") as s:
        s.user("x " * 15_000 + "userend")
        call = s.tool_call("Look", {"at": "y " * 2_500 + "callend"})
        s.tool_result(call, "z\n" * 300 + "resultend")
        s.tool_result(s.tool_call("Look", {}), "kept " * 60_000 + "blobend")
        s.delta("w " * 15_000 + "streamend")
    return "lengthy"


def test_show_says_how_to_see_the_rest(shelf, lengthy):
    """What is folded, or kept beside the log, is there with --full, which the text names."""
    found = shelf.read("show", lengthy)
    assert "userend" in found
    assert "streamend" in found
    assert "callend" not in found
    assert "more characters; use --full to show all" in found
    assert "kept beside the log: holdfast show --full has them" in found
    full = shelf.read("show-full", lengthy)
    assert all(word in full for word in ("callend", "resultend", "blobend"))


def test_mcp_says_how_to_read_the_rest(shelf, lengthy):
    """A text that is cut names the call, or the command, that has all of it."""
    found = shelf.read("mcp", lengthy)
    assert "userend" not in found
    ways = re.findall(r"more characters: start=(\d+), limit=1", found)
    alone = [shelf.alone(lengthy, int(way)) for way in ways]
    assert [any(word in one for one in alone) for word in ("userend", "callend")] == [True, True]
    assert "resultend" in found
    assert found.count("more characters: holdfast show --full") == 1  # the stream
    assert sum("more characters: holdfast show --full" in one for one in alone) == 1  # the blob


def test_the_web_page_links_to_the_rest(shelf, lengthy):
    """The link behind the beginning of a text leads to all of it; of a stream, to an export."""
    found = shelf.read("web", lengthy)
    assert "userend" not in found
    links = re.findall(r'href="([^"]+)">This is only its beginning', found)
    pages = "".join(shelf.visit(link.replace("&amp;", "&")) for link in links)
    assert all(word in pages for word in ("userend", "streamend"))
    assert "callend" in found
    assert "resultend" in found


def test_the_terminal_app_says_where_the_rest_is(shelf, lengthy):
    """A text that is too long to draw is counted, and an export has it."""
    found = shelf.read("tui", lengthy)
    assert all(word in found for word in ("userend", "callend", "resultend", "streamend"))
    assert "blobend" not in found
    assert "an export has them all" in found
    assert "blobend" in shelf.read("markdown", lengthy)
