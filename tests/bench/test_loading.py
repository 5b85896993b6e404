"""What is loaded when: nothing that a program did not ask for."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

import holdfast

ROOMS = ("holdfast", "holdfast.model", "holdfast.replay", "holdfast.session", "holdfast.storage")
HEAVY = ("asyncio", "concurrent.futures", "logging", "hashlib", "urllib.parse", "pathlib", "uuid")


def _loaded(run_python, code, *arguments):
    probe = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    return set(json.loads(run_python(code + probe, *arguments)))


def test_importing_loads_nothing_yet(run_python):
    """``import holdfast`` loads no room; each comes with the first use of something in it."""
    own = {name for name in _loaded(run_python, "import holdfast") if name.startswith("holdfast.")}
    assert own == set()


def test_opening_a_store_of_spaces_knows_no_other_tools(run_python, tmp_path):
    """A store whose sessions are all in spaces is ours: it is not searched for those of others."""
    code = """
import sys, holdfast
with holdfast.open(sys.argv[1], space="a") as hf, hf.session("s") as session:
    session.user("hi")
with holdfast.open(sys.argv[1]) as hf:
    pass
"""
    loaded = _loaded(run_python, code, str(tmp_path / "store"))
    assert [name for name in loaded if name.startswith("holdfast.formats")] == []


def test_recording_loads_no_more_than_it_needs(run_python, tmp_path):
    """A program that only records pays neither for conversations nor for heavy libraries."""
    code = """
import sys, holdfast
with holdfast.open(sys.argv[1]) as hf, hf.session("a") as session:
    session.user("hello")
"""
    bare = _loaded(run_python, "import msgspec")
    loaded = _loaded(run_python, code, str(tmp_path / "store"))
    assert loaded.isdisjoint(set(HEAVY) - bare)
    assert "holdfast.replay._conversation" not in loaded
    assert "holdfast.model._values" not in loaded
    assert not any(name.startswith(("platformdirs", "backports", "rich")) for name in loaded)


def test_answers_are_loaded_by_who_answers(run_python, tmp_path):
    """Neither a program that opens, records and lists nor `holdfast list` loads their structs."""
    program = """
import sys, holdfast
with holdfast.open(sys.argv[1]) as hf:
    with hf.session("a") as session:
        session.user("hello")
    hf.list()
"""
    command = """
import sys
from holdfast.apps.cli import main
sys.argv = ["holdfast", "list", "--store", sys.argv[1]]
try:
    main()
except SystemExit:
    print()
"""
    for code in (program, command):
        probe = "\nprint([name for name in sys.modules if 'library.answers' in name])"
        assert run_python(code + probe, str(tmp_path / "store")).splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("verb", "unneeded"),
    [
        ("acp doctor --help", "asyncio"),
        ("serve token list", "starlette hashlib holdfast.apps.cli._quick_list"),
        ("keys list", "hashlib holdfast.security._seal holdfast.apps.cli._quick_list"),
        ("fork a", "holdfast.security.redaction.scanner holdfast.library._redaction"),
        ("tag a new", "holdfast.library._redaction"),
        ("show nothing", "holdfast.formats.readers.codex holdfast.formats.readers.goose"),
        ("prune --dry-run", "holdfast.library._sessions"),
    ],
)
def test_a_verb_loads_what_it_needs(run_python, tmp_path, verb, unneeded):
    """No event loop for a page of help, no server for a list of tokens, no rules of redaction where nothing is said."""
    store = str(tmp_path / "store")
    with holdfast.open(store) as hf, hf.session("a") as session:
        session.user("hello")
    code = """
import sys
from holdfast.apps.cli import main
sys.argv = ["holdfast", *sys.argv[1:]]
try:
    main()
except SystemExit:
    print()
print(*sys.modules)
"""
    loaded = run_python(code, *verb.split(), "--store", store).splitlines()[-1].split()
    assert "holdfast.apps.cli._app" in loaded
    assert not set(unneeded.split()) & set(loaded)


@pytest.mark.parametrize("room", ROOMS)
def test_every_exported_name_is_there(room):
    """Names that are loaded late are there when they are asked for."""
    module = importlib.import_module(room)
    for name in module.__all__:
        assert getattr(module, name) is getattr(module, name)


@pytest.mark.parametrize("room", ROOMS)
def test_a_name_that_does_not_exist_is_refused_as_usual(room):
    """A typo gives AttributeError with the name of the room."""
    module = importlib.import_module(room)
    with pytest.raises(AttributeError, match=f"{room}.* has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018 - asking for it is the test


def test_rooms_are_reached_without_an_import_of_their_own(run_python):
    """``holdfast.replay.is_complete`` works after ``import holdfast``."""
    code = "import holdfast; print(holdfast.replay.is_complete([]), 'open' in dir(holdfast))"
    assert run_python(code).split()[1] == "True"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the library itself is asked")
@pytest.mark.parametrize("value", [None, "", "  ", "/somewhere/else"])
def test_the_users_directories_are_those_of_platformdirs(monkeypatch, value):
    """The short way on Linux gives what the library gives."""
    import platformdirs

    from holdfast._config import _places

    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    config = platformdirs.user_config_dir("holdfast", appauthor=False)
    assert _places.user_file().startswith(config + "/")
    assert _places.user_folder() == platformdirs.user_data_dir("holdfast", appauthor=False)


@pytest.mark.req("S0-6")
@pytest.mark.parametrize(
    ("system", "variables", "place"),
    [
        ("linux", {"HOME": "/h"}, "/h/.local/share/holdfast"),
        ("linux", {"HOME": "/h", "XDG_DATA_HOME": "/data"}, "/data/holdfast"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/holdfast"),
        ("win32", {"APPDATA": r"C:\Users\a\AppData\Roaming"}, r"C:\Users\a\AppData\Roaming/holdfast"),
    ],
)
def test_the_users_store_is_where_each_system_keeps_such_things(monkeypatch, system, variables, place):
    """In the data directory of Linux and macOS, and below ``%APPDATA%`` on Windows."""
    import platformdirs
    from platformdirs import windows
    from platformdirs.macos import MacOS

    from holdfast._config import configuration

    # Elsewhere than on Windows there is no system to ask for the folder behind the variable.
    monkeypatch.setattr(windows, "get_win_folder", windows.get_win_folder_from_env_vars)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system)
    kinds = {"darwin": MacOS, "win32": windows.Windows}
    monkeypatch.setattr(platformdirs, "PlatformDirs", kinds.get(system, platformdirs.PlatformDirs))
    assert configuration().get("store") == place
