"""How the app is started, and what is said where it cannot be."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import wait

import pytest
from click.testing import CliRunner

from holdfast.apps.cli import cli, front_ends
from holdfast.apps.tui import make_app
from holdfast.apps.tui._sessions import ListRequest, SessionPages, parse
from holdfast.errors import NotFound


@pytest.fixture
def run(store_root):
    """Run the command in this process."""

    def run(*arguments):
        result = CliRunner(env={"HOLDFAST_STORE": str(store_root)}).invoke(cli, list(arguments))
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def at_a_terminal(monkeypatch):
    """As if someone sat there; what the app is started with."""
    started = []
    monkeypatch.setattr(front_ends, "has_terminal", lambda: True)
    monkeypatch.setattr(front_ends, "start", lambda app, **options: started.append(options))
    return started


def test_in_a_pipe_there_is_help(run):
    """`holdfast` alone prints its help where nobody sits; `holdfast tui` refuses."""
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "Usage: holdfast" in out
    code, _, err = run("tui")
    assert code == 2
    assert "needs a terminal" in err


def test_at_a_terminal_the_app_opens(run, at_a_terminal):
    """`holdfast` alone is the app."""
    assert run()[0] == 0
    assert at_a_terminal == [{}]


@pytest.mark.req("S2-52")
def test_a_session_to_go_on_with(run, hf, trip, at_a_terminal):
    """`--restore` takes an id, its beginning, or - for the newest; a wrong one is told."""
    for given in ("trip-planner", "trip", "-"):
        assert run("tui", "--restore", given, "--model", "local", "--light")[0] == 0
    wanted = {"session_id": trip, "model": "local", "agent": None, "light": True}
    assert at_a_terminal == [wanted] * 3
    code, _, err = run("tui", "--session", "nothing")
    assert code == 3
    assert "nothing" in err


def test_without_the_library(run, at_a_terminal, monkeypatch):
    """Both say what to install."""
    monkeypatch.setattr(front_ends, "is_installed", lambda: False)
    code, out, err = run()
    assert code == 0
    assert "Usage: holdfast" in out
    assert "pip install 'holdfast[tui]'" in err
    code, _, err = run("tui")
    assert code == 2
    assert "pip install 'holdfast[tui]'" in err
    assert at_a_terminal == []


def test_other_verbs_load_nothing_of_it():
    """The library of the app is loaded for the app only."""
    import subprocess
    import sys

    code = "import sys; from holdfast.apps.cli import cli, front_ends, list\n"
    code += "print('textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_it_is_installed():
    """Here it is."""
    assert front_ends.is_installed()


@pytest.fixture
def collector():
    """The collector as it was, whatever a test does to it."""
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.usefixtures("collector")
async def test_the_first_page_is_asked_for_before_there_is_a_screen(hf, trip, monkeypatch):
    """It is asked for once, and the first screen has it; until then nothing is collected."""
    monkeypatch.setattr("holdfast.apps.tui._main_screen._RENEW_S", 3_600)
    asked = []
    listed = hf.list

    def list_(*arguments, **filters):
        asked.append(filters)
        return listed(*arguments, **filters)

    hf.list = list_
    app = make_app(hf)
    assert not gc.isenabled()
    wait([app.get_default_screen()._pages._ahead])
    async with app.run_test():
        assert [row.session_id for row in app.screen.sessions.rows] == [trip]
        while not gc.isenabled():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)
    assert asked.count({"after": None}) == 1  # the library asks for others, when it looks for what to prune


@pytest.mark.usefixtures("collector")
async def test_a_store_that_fails_ends_the_start(hf, monkeypatch):
    """The failure is told as ever, and the collector works again."""

    def fail(*_, **__):
        raise NotFound("there is no such store")

    monkeypatch.setattr(hf, "list", fail)
    app = make_app(hf)
    async with app.run_test(notifications=True):
        while not (gc.isenabled() and list(app._notifications)):  # noqa: ASYNC110 - they have no event
            await asyncio.sleep(0.01)
        assert "no such store" in next(iter(app._notifications)).message


@pytest.mark.usefixtures("collector")
def test_an_app_that_cannot_be_made_leaves_the_collector_alone(hf):
    """A wrong wish is refused; nothing stays as it is only while the app starts."""
    with pytest.raises(TypeError):
        make_app(hf, colour="none")
    assert gc.isenabled()
    gc.disable()
    make_app(hf).started()
    assert not gc.isenabled()


def test_only_the_plain_list_is_asked_ahead(hf, trip):
    """What was typed into the filter meanwhile counts; what was asked ahead is then not used."""
    pages = SessionPages(hf)
    pages.ask_ahead()
    wait([pages._ahead])
    assert pages.at_hand(parse("nothing")) is None
    assert pages.first(parse("nothing"))[0] == []
    assert pages.at_hand(ListRequest()) is None
    assert [row.session_id for row in pages.first(ListRequest())[0]] == [trip]
