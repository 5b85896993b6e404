"""What is written where: plain, coloured, as JSON; and how failures are explained."""

from __future__ import annotations

import errno
import io

import click
import pytest

from holdfast import errors
from holdfast.apps.cli import App
from holdfast.apps.cli._failure import explain, suggestion, tell
from holdfast.apps.cli._options import complete_id
from holdfast.apps.cli._progress import progress
from holdfast.apps.cli._screen import Screen
from holdfast.apps.cli.recover import print_recovery
from holdfast.apps.render.page import STYLES, Column, Span
from holdfast.replay import Recovery, sanitize


class Tty(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def paper(monkeypatch):
    """A narrow terminal in colour."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Tty()


@pytest.fixture
def colourless(monkeypatch, paper):
    """The same without colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    return paper


def test_styles_become_sequences(paper):
    """On a terminal every style can be written, and the text is in it."""
    screen = Screen(paper)
    for style in STYLES:
        screen.line(Span("text", style))
    assert paper.getvalue().count("text") == len(STYLES)
    assert "\x1b[" in paper.getvalue()


def test_recorded_sequences_do_not(paper):
    """Only the screen's own sequences reach a terminal."""
    screen = Screen(paper)
    screen.line("\x1b[31m", Span("\x1b[2J\n", "bad"))
    screen.text("\x9b31m\r\u202e")
    screen.table([Column("A\x07")], [["\x1b]0;x"]])
    for own in ("\x1b[1;31m", "\x1b[2m", "\x1b[0m"):
        assert own in paper.getvalue()
    rest = paper.getvalue().replace("\x1b[1;31m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert not set(rest) & set("\x1b\x9b\r\u202e\x07")


def test_long_lines_hang(colourless):
    """A line that does not fit goes on below, indented as asked."""
    Screen(colourless).line("error: ", "word " * 12, hang=2)
    first, *rest = colourless.getvalue().splitlines()
    assert first.startswith("error: word")
    assert all(line.startswith("  word") and len(line) <= 40 for line in rest)
    assert rest


def test_paragraphs_keep_their_indentation(colourless):
    """Broken and own lines of a text are all indented."""
    Screen(colourless).text("word " * 12 + "\nnext")
    assert all(line.startswith("  ") for line in colourless.getvalue().splitlines())


def test_an_empty_line(colourless):
    """Nothing is a line too."""
    Screen(colourless).line()
    assert colourless.getvalue() == "\n"


def test_tables_are_cut(colourless):
    """A table is no wider than the terminal, and cut cells end in an ellipsis."""
    columns = [Column("ID"), Column("N", right=True), Column("TITLE", flexible=True)]
    Screen(colourless).table(columns, [["a", "1", "long " * 20], ["b", "22", "漢字" * 20]])
    lines = colourless.getvalue().splitlines()
    assert lines[0] == "ID   N  TITLE"
    assert lines[1].startswith("a    1  long long")
    assert all(line.endswith("…") for line in lines[1:])
    assert max(map(len, lines)) <= 40


def test_progress_counts_on_a_terminal(colourless, monkeypatch):
    """Long work on a terminal shows a bar; every item comes exactly once."""
    monkeypatch.setattr("holdfast.apps.cli._progress._QUIET_SECONDS", -1)
    assert list(progress(Screen(colourless), range(5), "working")) == [0, 1, 2, 3, 4]
    assert "working" in colourless.getvalue()


def test_progress_is_quiet_in_a_pipe(monkeypatch):
    """Into a pipe nothing is counted."""
    monkeypatch.setattr("holdfast.apps.cli._progress._QUIET_SECONDS", -1)
    pipe = io.StringIO()
    assert list(progress(Screen(pipe), range(5), "working")) == [0, 1, 2, 3, 4]
    assert pipe.getvalue() == ""


def test_a_report_on_a_terminal_has_a_line_for_each_issue(colourless):
    """What was repaired is told one by one, with its place."""
    found = sanitize([{"role": "assistant", "content": "hi"}])
    app = App("none:")
    app.out, app.err = Screen(io.StringIO()), Screen(colourless)
    print_recovery(app, Recovery(found.messages, None, found.issues, session_id="s"))
    words = " ".join(colourless.getvalue().split())
    assert words.startswith("Session s recovery: Sanitized 1 issue(s): start: ")
    assert words.endswith(f"[{found.issues[0].type}]")


def test_a_stream_that_is_closed_is_no_terminal():
    """Asking a closed stream does not fail."""
    stream = Tty()
    stream.close()
    stream.isatty = stream.tell
    assert Screen(stream).is_terminal is False


def test_a_warning(colourless):
    """A warning has its word, its sentence and its remedy."""
    tell(Screen(colourless), Span("warning: ", "warning"), "one\ntwo", "do this\nand that")
    assert colourless.getvalue().splitlines() == [*("warning: one", "  two", "  do this", "  and that")]


CODES = {
    errors.UsageError: 2,
    errors.InvalidId: 2,
    errors.NotFound: 3,
    errors.Damaged: 4,
    errors.TooNew: 4,
    errors.Locked: 4,
    errors.Fenced: 4,
    errors.Forbidden: 4,
    errors.KeyMissing: 4,
    errors.Tampered: 4,
    errors.Unavailable: 1,
    errors.StoreFull: 1,
    errors.SyncFailed: 1,
    errors.Conflict: 1,
    errors.AgentError: 1,
}


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=str)
def test_codes_of_errors(kind, code):
    """Each error has its exit code, its sentence and its remedy."""
    failure = explain(kind("what happened", remedy="what to do"))
    assert failure == ("what happened", "what to do", code, kind.code)


def test_a_remedy_for_python_is_said_for_the_shell():
    """No remedy at the command line speaks of arguments of a call."""
    assert "read_only=" in errors.Locked.remedy
    assert "read_only=" not in explain(errors.Locked()).remedy


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_has_a_code(name):
    """Whatever the library raises ends in one of the documented codes, with something to say."""
    failure = explain(getattr(errors, name)())
    assert failure.code in (1, 2, 3, 4)
    assert failure.message
    assert failure.remedy


def test_other_exceptions():
    """Interruptions, a closed pipe, the system and defects are told apart."""
    assert explain(KeyboardInterrupt()).code == 130
    assert explain(click.Abort()).code == 130
    assert explain(SystemExit(3)).code == 3
    assert explain(SystemExit("words")).code == 1
    assert explain(click.exceptions.Exit(4)).code == 4
    assert explain(BrokenPipeError(errno.EPIPE, "x"))[:3] == ("", "", 1)
    assert "No space left" in explain(OSError(errno.ENOSPC, "x")).message
    assert "odd" in explain(OSError("odd")).message
    assert "defect" in explain(TypeError("x")).remedy
    assert explain(click.UsageError("No such thing.")).message == "no such thing"


def test_suggestions():
    """Something near is suggested, nothing far, and a giant name is no burden."""
    assert suggestion("lits", ["list", "show"]) == "; did you mean list?"
    assert suggestion("x" * 1_000_000, ["list"]) == ""


def test_completion(library, trip, store_root, damaged):
    """Ids are completed from the store that the line names; a bad one completes nothing."""

    def offered(store, incomplete):
        context = click.Context(click.Command("show"))
        context.params = {"store": store}
        return {item.value: item.help for item in complete_id(context, None, incomplete)}

    assert offered(str(store_root), "tr") == {"trip-planner": "Trip to Lisbon"}
    assert sorted(offered(str(store_root), "")) == ["broken", "trip-planner"]
    assert offered("ftp://x", "") == {}
