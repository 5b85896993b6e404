"""Every screen against a stored picture of it: its text, and the look of each cell.

``RENEW_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py`` writes the pictures anew; look at what
changed before it is committed.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest
from rich.cells import set_cell_size
from textual.geometry import Region

# Thousands of draws: without the coverage tracer, and other tests cover the same lines.
pytestmark = pytest.mark.slow

STORED = Path(__file__).parent / "snapshots"
TOOL = Path(__file__).parents[2] / "tools" / "shoot_tui.py"
SIZES = {"80x24": (80, 24), "160x45": (160, 45)}
LOOKS = "--- look"
_SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@pytest.fixture(scope="module")
def shooting():
    """The script that takes the pictures of the documentation."""
    spec = importlib.util.spec_from_file_location("shoot_tui", TOOL)
    module = sys.modules["shoot_tui"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["shoot_tui"]


def picture_of(app):
    """The text of a screen, then a letter for the look of each cell, then what each letter is."""
    strips = _strips(app.screen)
    known, looks = {}, []
    for strip in strips:
        line = ""
        for segment in strip:
            look = _look(segment.style)
            sign = known.setdefault(look, _SIGNS[len(known)])
            line += sign * segment.cell_length
        looks.append(_runs(line))
    text = "\n".join(strip.text.rstrip() for strip in strips)
    legend = "\n".join(f"{sign} {look}" for look, sign in known.items())
    return f"\n\n{LOOKS}\n".join((text, "\n".join(looks), legend)) + "\n"


def _strips(screen):
    """What is in sight; of a dialog only itself, as what lies behind it may still move."""
    strips = screen._compositor.render_strips()
    if not screen.is_modal:
        return strips
    place = Region.from_union([child.region for child in screen.children if child.display])
    return [strip.crop(place.x, place.right) for strip in strips[place.y : place.bottom]]


def _look(style):
    return str(style.without_color + style.__class__(color=style.color, bgcolor=style.bgcolor))


def _runs(line):
    return " ".join(f"{run[0][0]}{len(run[0])}" for run in re.finditer(r"(.)\1*", line))


@pytest.mark.req("S2-6")
@pytest.mark.req("S2-7")
@pytest.mark.req("S2-55")
@pytest.mark.req("S4-74")
@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", SIZES)
async def test_every_screen_looks_as_it_did(shooting, size, theme):
    """List, conversation, search, comparison, branches, time, analytics, dialogs; never pale."""
    found = {}
    with shooting.world() as library:
        async for name, app in shooting.walk(library, SIZES[size], light=theme == "light"):
            found[name] = picture = picture_of(app)
            # What lies behind a dialog is pale on purpose.
            assert app.screen.is_modal or not list(_pale(picture)), name
    assert list(found) == [shot.name for shot in shooting.SHOTS]
    folder = STORED / f"{size}-{theme}"
    if os.environ.get("RENEW_SNAPSHOTS"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in found.items():
            (folder / f"{name}.txt").write_text(picture, encoding="utf-8")
    wrong = [name for name in found if found[name] != _stored(folder, name)]
    assert not wrong, _difference(folder, wrong[0], found[wrong[0]])


def _pale(picture):
    """Words that are hard to tell from what is behind them: less than 4.5 to 1, as WCAG counts."""
    text, looks, legend = picture.rstrip("\n").split("\n\n" + LOOKS + "\n")
    colours = dict(line.split(" ", 1) for line in legend.splitlines())
    for shown, runs in zip(text.split("\n"), looks.split("\n"), strict=True):
        start = 0
        for run in runs.split():
            words = set_cell_size(shown, 500)[start : start + int(run[1:])]
            start += int(run[1:])
            found = re.search(r"#(\w{6}) on #(\w{6})", colours[run[0]])
            if found and re.search(r"\w", words) and _contrast(*found.groups()) < 4.5:
                yield words, colours[run[0]]


def _contrast(one, other):
    bright, dark = sorted((_light(one), _light(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _light(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _stored(folder, name):
    path = folder / f"{name}.txt"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _difference(folder, name, picture):
    lines = difflib.unified_diff(
        _stored(folder, name).splitlines(), picture.splitlines(), "stored", "now", n=1, lineterm=""
    )
    return f"{name} looks different:\n" + "\n".join(lines)


def test_no_picture_is_left_over(shooting):
    """Each stored picture belongs to a screen."""
    names = {f"{shot.name}.txt" for shot in shooting.SHOTS}
    for folder in STORED.iterdir():
        assert {path.name for path in folder.iterdir()} == names


def test_the_pictures_of_the_documentation(shooting, tmp_path, capsys):
    """The script makes each picture that the page shows, as it is stored, with what it is about."""
    folder = tmp_path / "pictures"
    assert shooting.main([str(folder)]) == 0
    assert "pictures into" in capsys.readouterr().out
    shots = {shot.name: shot for shot in shooting.SHOTS}
    made = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    howto = TOOL.parents[1] / "docs" / "howto"
    page = (howto / "terminal-app.md").read_text(encoding="utf-8")
    assert set(re.findall(r"pictures/(terminal-app-[\w-]+\.svg)", page)) == set(made)
    for name, picture in made.items():
        shown = picture.replace("&#160;", " ")
        assert shots[name.removeprefix("terminal-app-").removesuffix(".svg")].sees in shown
        assert "url(http" not in picture
        assert (howto / "pictures" / name).read_text(encoding="utf-8") == picture, name
