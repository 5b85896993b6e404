"""``holdfast export``: to standard output, to a file, and to another tool."""

from __future__ import annotations

import io
import json
import stat

import pytest

from holdfast.apps.cli._screen import Screen
from holdfast.apps.cli.export import FORMATS, format_by_name
from holdfast.formats import FORMATS as KNOWN


def test_markdown_by_default(run, library, trip):
    """Without options the document is markdown on standard output, as it is."""
    outcome = run("export", "trip")
    assert outcome.code == 0
    assert outcome.out == library.export(trip)
    assert outcome.err == ""


def test_the_formats_are_those_of_the_library():
    """The names in the help are all formats there are."""
    assert tuple(KNOWN) == FORMATS


@pytest.mark.parametrize("format", FORMATS)
def test_every_format(run, library, trip, format, tmp_path):
    """Each format goes to a file and to standard output."""
    path = tmp_path / "out"
    assert run("export", trip, "--format", format, "-o", str(path)).code == 0
    assert path.stat().st_size
    if format != "bundle":
        out = run("export", "-", "--format", format).out
        assert out.encode() == path.read_bytes()


def test_a_bundle_into_a_pipe(shell, library, trip, tmp_path):
    """Bytes go through a pipe unchanged."""
    path = tmp_path / "x.holdfast"
    with path.open("wb") as file:
        assert shell("export", trip, "--format", "bundle", stdout=file).code == 0
    assert path.read_bytes() == library.export(trip, "bundle")


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.md", "markdown"),
        ("a.HTML", "html"),
        ("a.holdfast", "bundle"),
        ("a", "markdown"),
        ("a.txt", "text"),
        ("a.json", "json"),
        ("a.jsonl", "jsonl"),
        (None, "markdown"),
        ("trip.v2", "markdown"),
    ],
)
def test_the_name_chooses(name, format):
    """The end of a file's name says which format is wanted."""
    assert format_by_name(name) == format


def test_a_name_of_another_format_is_refused(run, trip, tmp_path):
    """What ends in ``.zip`` would be Markdown under a false name: nothing is written without ``--format``."""
    path = tmp_path / "trip.zip"
    refused = run("export", trip, "-o", str(path))
    assert refused.code == 2
    assert ".zip" in refused.err
    assert not path.exists()
    assert run("export", trip, "-o", str(path), "--format", "html").code == 0


def test_files(run, trip, tmp_path):
    """A file is private, and is replaced only if that is asked for."""
    path = tmp_path / "trip.html"
    assert run("export", trip, "-o", str(path)).code == 0
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = run("export", trip, "-o", str(path))
    assert (again.code, again.out) == (2, "")
    assert "already" in again.err
    assert run("export", trip, "-o", str(path), "--force").code == 0


def test_at_and_zone(run, trip):
    """An earlier moment, and another zone."""
    early = run("export", trip, "--at", "3", "--format", "text", "--zone", "Asia/Tokyo")
    assert early.code == 0
    assert "Sintra" not in early.out
    assert run("export", trip, "--zone", "Mars").code == 2


def test_not_found(run):
    """A session that is not there is told, with its exit code."""
    assert run("export", "nobody").code == 3


def test_wrong_format(run, trip):
    """An unknown format is a wrong use."""
    assert run("export", trip, "--format", "pdf").code == 2


def test_seal(run, library, trip, tmp_path):
    """With a passphrase in the environment the bundle is encrypted."""
    path = tmp_path / "x.holdfast"
    secret = {"HOLDFAST_PASSPHRASE": "open sesame"}
    assert run("export", trip, "-o", str(path), "--seal", env=secret).code == 0
    assert path.read_bytes().startswith(b"HOLDFAST-SEALED\n")
    assert run("export", trip, "--seal", env=secret).code == 2
    without = run("export", trip, "--format", "bundle", "--seal", "-o", str(tmp_path / "y"))
    assert without.code == 2
    assert "HOLDFAST_PASSPHRASE" in without.err


def test_seal_asks(run, trip, tmp_path, monkeypatch):
    """On a terminal the passphrase is asked for, twice and without showing it."""
    monkeypatch.setattr("holdfast.apps.cli.export.sys.stdin", _Terminal())
    monkeypatch.setattr("click.prompt", lambda *_, **options: "secret" * options["hide_input"])
    path = tmp_path / "x.holdfast"
    from holdfast.apps.cli.export import _passphrase

    assert _passphrase("bundle") == "secret"
    assert not path.exists()


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_install(run, trip, tmp_path):
    """The command that goes on is the result; where the file is stands beside it."""
    home = {"HOME": str(tmp_path)}
    done = run("export", trip, "--format", "codex", "--install", "--cwd", str(tmp_path), env=home)
    assert done.code == 0
    assert done.out.startswith(f"cd {tmp_path} && codex resume ")
    assert ".codex/sessions" in done.err
    (path,) = (tmp_path / ".codex").rglob("*.jsonl")
    assert json.loads(path.read_text().splitlines()[0])["type"] == "session_meta"


def test_json(run, library, trip, tmp_path):
    """For programs: the document with everything, or what was installed."""
    assert run("export", trip, "--json").out == library.export(trip, "json")
    assert run("export", trip, "--json", "--format", "html").code == 2
    options = ["--format", "opencode", "--install", "--cwd", str(tmp_path), "--json"]
    done = json.loads(run("export", trip, *options).out)
    assert set(done) == {"tool", "session_id", "path", "command"}


@pytest.mark.parametrize(
    "options",
    [
        ["--install"],
        ["--install", "--format", "html"],
        ["--install", "--format", "codex", "-o", "x"],
        ["--install", "--format", "codex", "--seal"],
    ],
)
def test_install_needs_a_tool(run, trip, options):
    """Installing is for tools, and chooses the file itself."""
    assert run("export", trip, *options).code == 2


def test_a_terminal_gets_nothing_to_obey(library):
    """The lines of a log may hold controls that JSON does not escape; a terminal does not."""
    with library.session("s") as session:
        session.user("clear \x9b2J")
    terminal = _Terminal()
    library.export("s", "jsonl", to=Screen(terminal).sink(is_json=True))
    assert "\x9b" not in terminal.getvalue()
    assert "\\u009b2J" in terminal.getvalue()
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    library.export("s", "jsonl", to=Screen(pipe).sink(is_json=True))
    assert pipe.buffer.getvalue().decode() == library.export("s", "jsonl")


def test_a_bundle_is_not_for_a_screen(library, trip, monkeypatch):
    """On a terminal a bundle needs a file."""
    from holdfast.apps.cli import App
    from holdfast.apps.cli.export import _export
    from holdfast.errors import UsageError

    app = App()
    app.out = Screen(_Terminal())
    given = dict.fromkeys(("output", "force", "at", "zone", "cwd", "model", "seal", "sign"))
    with pytest.raises(UsageError, match="refusing to write a bundle"):
        _export(app, trip, "bundle", given)


def test_a_file_in_the_way_is_named_with_the_option(run, trip, tmp_path):
    """What is said is what can be done at the shell."""
    path = tmp_path / "a.md"
    path.write_text("mine")
    outcome = run("export", trip, "-o", str(path))
    assert outcome.code == 2
    assert "--force" in outcome.err
    assert path.read_text() == "mine"


def test_a_long_export_shows_how_far_it_is(monkeypatch, library, trip, tmp_path):
    """A bar on a terminal, for a long session, unless the document itself is shown there."""
    from holdfast.apps.cli import App, export

    app = App()
    monkeypatch.setattr(app, "_library", library)
    monkeypatch.setattr(app.err, "is_terminal", True)
    monkeypatch.setattr(app.out, "is_terminal", True)
    has_bar, export_ = [], library.export

    def spy(*words, progress, **options):
        has_bar.append(progress is not None)
        return export_(*words, progress=progress, **options)

    monkeypatch.setattr(library, "export", spy)
    given = dict.fromkeys(("output", "force", "at", "zone", "cwd", "model", "seal", "sign"))
    export._export(app, trip, None, given | {"output": str(tmp_path / "short.md")})
    monkeypatch.setattr(export, "_LONG_BYTES", 0)
    export._export(app, trip, None, given)
    export._export(app, trip, None, given | {"output": str(tmp_path / "a.md")})
    assert has_bar == [False, False, True]
