"""Long work says how far it is, how fast it goes and how long it takes; on a terminal only."""

from __future__ import annotations

import io
import re
import sys

import pytest

from holdfast.apps.cli._progress import Meter, progress
from holdfast.apps.cli._screen import Screen

LINE = re.compile(r"\r\x1b\[K([^\r]*)")


class Terminal(io.StringIO):
    """A stream that says it is a terminal, 80 columns wide."""

    encoding = "utf-8"

    def isatty(self):
        return True


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def screen(monkeypatch):
    """A terminal to draw on."""
    monkeypatch.setenv("TERM", "xterm")
    return Screen(Terminal())


def drawn(screen):
    """What was on the line, one after the other."""
    return LINE.findall(screen.beside.getvalue())


def work(screen, clock, steps, total, *, seconds=1.0, **options):
    """Some steps of work, each of which takes so long."""
    meter = Meter(screen, "copying", now=clock, **options)
    for done in steps:
        clock.now += seconds
        meter.update(done, total)
    return meter


def test_how_far_and_how_long(screen):
    """A bar, a share, a count, the time that is left and the pace."""
    work(screen, Clock(), [0, 10, 20, 30], 100)
    assert drawn(screen)[-1] == (f"copying  {'━' * 6}{'┄' * 14}   30%  30/100  0:07 left  10/s")


def test_bytes(screen):
    """Bytes are told as sizes."""
    work(screen, Clock(), [0, 10**9], 4 * 10**9, seconds=100, in_bytes=True)
    assert "25%  1.0 GB of 4.0 GB  5:00 left  10.0 MB/s" in drawn(screen)[-1]


def test_long_and_slow(screen):
    """Hours are told as such, and a slow pace with a digit more."""
    work(screen, Clock(), [0, 1], 5_000, seconds=2)
    assert "2:46:38 left  0.5/s" in drawn(screen)[-1]


def test_the_pace_is_that_of_now(screen):
    """What was long ago does not count: after a slow start the time left is what it now looks."""
    clock = Clock()
    meter = work(screen, clock, [0, 1], 1_000, seconds=100)
    for done in range(2, 300, 10):
        clock.now += 1
        meter.update(done, 1_000)
    assert "10/s" in drawn(screen)[-1]


def test_nothing_of_what_is_quickly_done(screen):
    """Half a second of work is not worth a line."""
    work(screen, Clock(), [1, 2, 3], 3, seconds=0.1).clear()
    assert screen.beside.getvalue() == ""


def test_not_more_often_than_eyes_can_follow(screen):
    """A thousand steps in a second are drawn a few times."""
    clock = Clock()
    clock.now = 5.0
    work(screen, clock, range(2_000), 2_000, seconds=0.001)
    assert 3 <= len(drawn(screen)) <= 20


@pytest.mark.parametrize(("columns", "expected"), [(50, "copying   30%  30/100  0:07 left"), (9, "copying")])
def test_a_narrow_terminal(screen, monkeypatch, columns, expected):
    """What there is no room for is left out, the bar first."""
    monkeypatch.setattr("holdfast.apps.cli._screen._columns", lambda _: columns)
    work(screen, Clock(), [0, 10, 20, 30], 100)
    assert drawn(screen)[-1] == expected


def test_a_total_that_is_not_known(screen):
    """Nothing of nothing is no share, and no failure."""
    work(screen, Clock(), [0, 0], 0)
    assert "0%  ┄" not in drawn(screen)[-1]
    assert "0/0" in drawn(screen)[-1]


def test_another_encoding(screen):
    """Where the characters are missing the bar is drawn with others."""
    screen.is_unicode = False
    work(screen, Clock(), [0, 50], 100)
    assert "##########.........." in drawn(screen)[-1]


def test_other_words_come_in_its_place(screen):
    """A line of a verb is not written behind the bar, and the bar is gone at the end."""
    clock = Clock()
    meter = Meter(screen, "archiving", now=clock)
    other = Screen(screen.beside)
    with screen.showing(meter):
        clock.now = 2
        meter.update(1, 2)
        other.line("archived a")
        clock.now = 4
        meter.update(2, 2)
    shown = screen.beside.getvalue()
    assert re.search(r"archiving[^\r]*\r\x1b\[Karchived a\n\r\x1b\[Karchiving", shown)
    assert shown.endswith("\r\x1b[K")


def test_a_pipe(capsys):
    """Without a terminal nothing is drawn, and the items come all the same."""
    screen = Screen(sys.stderr)
    assert list(progress(screen, [1, 2, 3], "counting")) == [1, 2, 3]
    with screen.meter("copying") as tell:
        tell(1, 2)
    assert capsys.readouterr().err == ""


EAGER = """
import holdfast.apps.cli._progress as progress
import holdfast.apps.cli.export as export
from holdfast.apps.cli import main
progress._QUIET_SECONDS = progress._REDRAW_SECONDS = export._LONG_BYTES = 0
main()
"""
CALLS = {
    "verify": ["verify", "--all"],
    "archive": ["archive", "job-1", "job-2", "job-3"],
    "copy": ["copy", "--to", "other"],
    "reindex": ["reindex"],
    "prune": ["prune", "--keep", "1", "--yes"],
    "import": ["import", "in"],
    "export": ["export", "job-1", "-o", "job.md"],
}


@pytest.mark.parametrize("verb", CALLS)
def test_every_long_verb(tty, shell, library, tmp_path, verb):
    """Each shows its progress on a terminal and leaves only its result; in a pipe it is quiet."""
    for number in range(4):
        with library.session(f"job-{number}") as s:
            s.user("x" * 1_000)
    (tmp_path / "in").mkdir()
    for number in range(4):
        text = f'[{{"role": "user", "content": "question {number}"}}]'
        (tmp_path / "in" / f"{number}.json").write_text(text)
    library.close()
    outcome = tty(program=[sys.executable, "-c", EAGER, *CALLS[verb]])
    assert outcome.code == 0, outcome.out
    assert LINE.search(outcome.out), outcome.out
    assert re.search(r"\d%", outcome.out)
    assert "\r\x1b[K" not in shell(*CALLS[verb], "--store", tmp_path / "store").err


def test_an_import_counts_files(library, tmp_path):
    """However many sessions a folder has, it is told how many of its files were read."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(5):
        text = f'[{{"role": "user", "content": "question {number}"}}]'
        (folder / f"{number}.json").write_text(text)
    told = []
    library.import_all([folder], progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] >= 4
    assert {total for _, total in told} == {5}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
