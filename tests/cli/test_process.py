"""The command as a process: exit codes, pipes, colours, encodings, what it loads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import __version__

COMMAND = str(Path(sys.executable).with_name("holdfast"))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["list"], 0),
        (["verify", "trip"], 0),
        (["list", "--nonsense"], 2),
        (["show", "../x"], 2),
        (["show", "no-such"], 3),
        (["verify", "broken"], 4),
        (["show", "from-the-future"], 4),
        (["undelete", "trip"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
@pytest.mark.usefixtures("trip", "damaged", "too_new", "untouched")
def test_exit_codes(shell, arguments, code):
    """The documented exit code comes out of the process, with no stack trace."""
    outcome = shell(*arguments)
    assert outcome.code == code
    assert "Traceback" not in outcome.err
    assert (code in (2, 3)) <= outcome.err.startswith("error: ")


def test_an_error_is_a_line_and_a_remedy(shell):
    """Two lines on standard error: what is wrong, what to do."""
    outcome = shell("show", "no-such")
    assert outcome.out == ""
    assert outcome.err == ("error: there is no session no-such\n  List the existing sessions with `holdfast list`.\n")


def test_no_arguments_is_help(shell):
    """Without arguments the help is printed, and that is fine."""
    outcome = shell()
    assert outcome.code == 0
    assert outcome.out == shell("--help").out
    for verb in ("list", "show", "doctor", "Exit codes"):
        assert verb in outcome.out


def test_version(shell):
    """--version prints the version."""
    assert shell("--version").out == f"holdfast {__version__}\n"


def test_module_and_store_option_in_both_places(shell, trip, store_root):
    """--store may stand before or after the verb; after it wins."""
    env = {"HOLDFAST_STORE": "none:"}
    assert "trip-planner" in shell("--store", store_root, "list", env=env).out
    assert "trip-planner" in shell("list", "--store", store_root, env=env).out
    assert "trip-planner" in shell("--store", "none:", "list", "--store", store_root, env=env).out
    assert shell("list", env=env).out == ""


@pytest.mark.parametrize("arguments", [["list"], ["show", "trip"], ["doctor"], ["--help"]])
def test_a_pipe_gets_plain_text(shell, trip, arguments):
    """No escape sequence is written into a pipe, whatever the terminal could do."""
    env = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    assert "\x1b" not in shell(*arguments, env=env).out


def test_nothing_is_cut_in_a_pipe(shell, library):
    """A pipe has no width: titles are whole, however narrow the terminal."""
    with library.session("long") as s:
        s.title = "word " * 60
        s.user("x")
    assert ("word " * 60).strip() in shell("list", env={"COLUMNS": "20"}).out


def test_a_reader_that_leaves_early(trip, store_root):
    """A closed pipe ends the command quietly."""
    with subprocess.Popen(
        [COMMAND, "show", trip, "--full", "--store", str(store_root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
        process.wait()
    assert errors == b""
    assert process.returncode == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed(trip, store_root, closed):
    """As a daemon starts it, with standard streams closed, the command works, and writes into no file of the store."""
    command = ["sh", "-c", f'exec "$0" "$@" {closed}', COMMAND, "tag", trip, "seen", "--store", str(store_root)]
    outcome = subprocess.run(command, capture_output=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, b"")
    with holdfast.open(store_root) as hf:
        assert "seen" in hf.info(trip).tags
        assert hf.verify(trip).ok


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_output_that_is_full(shell, trip):
    """Output that cannot be written is a failure, told in a sentence."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        outcome = shell("list", stdout=full)
    assert outcome.code == 1
    assert outcome.err.startswith("error: the system refused")
    assert "Traceback" not in outcome.err


def test_another_encoding(shell, library):
    """Where the output's encoding lacks a character it is escaped; JSON stays JSON."""
    with library.session("words", title="Grüße 漢字") as s:
        s.user("x")
    env = {"PYTHONIOENCODING": "ascii"}
    outcome = shell("list", env=env)
    assert outcome.code == 0
    assert "Gr\\xfc\\xdfe" in outcome.out
    document = json.loads(shell("list", "--json", env=env).out)
    assert document["sessions"][0]["title"] == "Grüße 漢字"


def test_an_interruption(trip, store_root):
    """Ctrl-C ends the command with the code that shells know, without a stack trace."""
    code = (
        "import holdfast.apps.render.words as words, holdfast.apps.cli as cli\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "words.ago = stop\n"
        "cli.main()\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code, "list", "--store", str(store_root)], capture_output=True, check=False
    )
    assert outcome.returncode == 130
    assert b"Traceback" not in outcome.stderr


def test_a_defect_is_told_as_one(trip, store_root):
    """An error that nobody foresaw is a sentence too, and its trace can be asked for."""
    code = "import holdfast.apps.render.words as words, holdfast.apps.cli as cli\nwords.ago = None\ncli.main()\n"
    command = [sys.executable, "-c", code, "list", "--store", str(store_root)]
    short = subprocess.run(command, capture_output=True, check=False, text=True)
    assert short.returncode == 1
    assert "defect of Holdfast" in short.stderr
    assert "Traceback" not in short.stderr
    asked = {**os.environ, "HOLDFAST_TRACEBACK": "1"}
    long = subprocess.run(command, capture_output=True, check=False, text=True, env=asked)
    assert "Traceback" in long.stderr


def _without_warnings():
    """Return the environment of a user: who asks for warnings gets the usual exit, with what it finds."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}


ENDS = """
import atexit, functools, threading
import holdfast.apps.cli as cli
rest = type("Rest", (), {"__del__": functools.partial(print, "torn down")})()
atexit.register(print, "exit function")
threading.Thread(target=lambda: (threading.main_thread().join(), print("other thread"))).start()
"""


@pytest.mark.parametrize(
    ("call", "torn_down"),
    [("cli.run_program()", False), ("exec('cli.run_program()')", True), ("cli.main()", True)],
    ids=["alone", "in a host", "main"],
)
def test_the_exit_does_what_python_promises(call, torn_down):
    """Threads are waited for, exit functions run, output is written; within a host the interpreter ends as usual."""
    words = [f"holdfast {__version__}", "other thread", "exit function", *["torn down"] * torn_down]
    command = [sys.executable, "-c", ENDS + call, "--version"]
    told = subprocess.run(command, capture_output=True, check=True, text=True, env=_without_warnings()).stdout
    assert told.splitlines() == words


@pytest.mark.parametrize("program", [[COMMAND], [sys.executable, "-m", "holdfast"]], ids=["script", "module"])
@pytest.mark.parametrize(("id", "code"), [("long", 0), ("no-such", 3)])
def test_all_output_arrives_in_a_pipe(library, store_root, program, id, code):
    """The process ends with its exit code when everything is written, however much it is."""
    with library.session("long") as s:
        s.user("word " * 100_000 + "the end")
    command = [*program, "show", id, "--full", "--store", str(store_root)]
    outcome = subprocess.run(command, capture_output=True, check=False, env=_without_warnings())
    assert outcome.returncode == code
    assert b"the end" in outcome.stdout if code == 0 else b"no session no-such" in outcome.stderr


HEAVY = ("asyncio", "pydantic", "textual", "rich", "starlette", "cryptography", "logging", "locale")
LOADED = """
import sys
from holdfast.apps.cli import cli
code = cli.main(sys.argv[1:], standalone_mode=False)
print(" ".join(sorted(sys.modules)), file=sys.stderr)
sys.exit(code)
"""


def loaded(store_root, *arguments):
    """The modules that a run of the command loads."""
    outcome = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments, "--store", str(store_root)],
        capture_output=True,
        check=True,
        text=True,
    )
    return set(outcome.stderr.split())


@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["show", "trip"]])
def test_nothing_heavy_is_loaded(trip, store_root, arguments):
    """Into a pipe, a quick command loads no heavy library."""
    modules = loaded(store_root, *arguments)
    assert {name for name in modules if name.partition(".")[0] in HEAVY} == set()


@pytest.mark.parametrize("load", ["import logging\n", ""], ids=["before", "after"])
def test_warnings_of_the_library_are_not_told_twice(store_root, load):
    """The verbs tell the library's warnings themselves: Python's log is silent, whenever it is loaded."""
    code = f"import sys\n{load}from holdfast.apps.cli import App\nApp(sys.argv[1]).library\n"
    code += "import logging\nlogging.getLogger('holdfast').warning('again')\n"
    outcome = subprocess.run([sys.executable, "-c", code, str(store_root)], capture_output=True, check=True)
    assert outcome.stderr == b""


@pytest.mark.parametrize(
    ("arguments", "spared"),
    [
        (["--version"], ("library", "session", "storage", "catalog", "formats")),
        (["title", "trip"], ("formats", "agent")),
        (["tag", "trip"], ("formats", "agent")),
        (["show", "trip"], ("formats", "agent")),
        (["search", "word"], ("formats", "agent")),
        (["waiting"], ("formats", "agent")),
    ],
)
def test_a_verb_loads_no_room_that_it_does_not_enter(trip, store_root, arguments, spared):
    """What reads foreign files and talks to models stays on the disk until it is needed."""
    found = {name.split(".")[1] for name in loaded(store_root, *arguments) if name.startswith("holdfast.")}
    assert not found & set(spared)


def test_only_the_verb_that_runs_is_loaded(trip, store_root):
    """The other verbs stay on the disk."""
    modules = loaded(store_root, "list")
    verbs = {name for name in modules if re.fullmatch(r"holdfast\.apps\.cli\.[a-z]+", name)}
    assert verbs == {"holdfast.apps.cli.list"}


def test_help_loads_no_verb():
    """The list of verbs is printed without loading them."""
    code = LOADED.replace("sys.argv[1:]", "['--help']")
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not [name for name in outcome.stderr.split() if name == "holdfast.apps.cli.list"]


def test_completion_knows_the_ids(shell, trip):
    """The shell completes verbs and ids."""
    env = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_CWORD": "2", "COMP_WORDS": "holdfast show tr"}
    assert "trip-planner" in shell(env=env).out


@pytest.mark.parametrize(("verb", "collects"), [("--version", False), ("serve", True)])
def test_short_verbs_leave_their_garbage(verb, collects):
    """A verb that is over soon collects nothing, neither at its exit; one that serves collects as other programs do."""
    told = "print(gc.get_threshold()[0] < 10_000, gc.get_freeze_count() > 0)"
    program = f"import gc\nfrom holdfast.apps.cli import main\ntry:\n    main()\nfinally:\n    {told}"
    ran = subprocess.run(
        [sys.executable, "-c", program, verb, "--help"], check=True, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.splitlines()[-1] == f"{collects} True"
