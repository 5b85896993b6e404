"""The bridge as a process: a private socket, standard input, and a client in another language."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.apps.cli import cli
from holdfast.apps.ipc import bridge as bridge_module
from holdfast.apps.ipc.bridge import Bridge, default_address
from holdfast.errors import Forbidden, Locked, UsageError
from holdfast.storage import PrivateSocket

COMMAND = str(Path(sys.executable).with_name("holdfast"))
CLIENT = Path(__file__).with_name("client.js")
PATIENCE_S = 120


@pytest.fixture
def address(tmp_path):
    """Where a socket may be; its folder is yet to be made."""
    return str(tmp_path / "run" / "b.sock")


@pytest.fixture
def start(store_root, address):
    """Starts a bridge in a process of its own, at the address."""
    started = []

    def start():
        process = subprocess.Popen(
            [COMMAND, "--store", str(store_root), "bridge", "--socket", address, "--model", "local"],
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stderr is not None
        assert "Listening at" in process.stderr.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture
def bridge(start):
    """One that has been started."""
    return start()


def converse(address, *messages):
    """Say some messages at a socket, and read until each has its answer."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(address)
        file = client.makefile("rwb")
        answers = []
        for message in messages:
            file.write(json.dumps(message).encode() + b"\n")
            file.flush()
            while (answer := json.loads(file.readline()))["type"] == "stream_token":
                pass
            answers.append(answer)
        file.close()
        return answers


# -- the socket --------------------------------------------------------------------------------


def mode(path):
    """The permissions of a file."""
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_the_socket_is_private(address):
    """0600 in a folder of 0700, whatever the umask; gone when it is closed."""
    before = os.umask(0)
    try:
        with PrivateSocket(address) as listening:
            assert stat.S_ISSOCK(os.lstat(address).st_mode)
            assert (mode(address), mode(os.path.dirname(address))) == (0o600, 0o700)
            assert listening.path == os.path.realpath(address)
        assert not os.path.exists(address)
        listening.close()
    finally:
        os.umask(before)


def test_one_listens_at_a_place(address):
    """A second one is told, and does no harm to the first."""
    with PrivateSocket(address):
        with pytest.raises(Locked, match="already"):
            PrivateSocket(address)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(address)


def test_a_socket_that_was_left_behind_is_replaced(address):
    """A process that was killed cannot take its socket away."""
    with PrivateSocket(address):
        pass
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(address)
    with PrivateSocket(address), socket.socket(socket.AF_UNIX) as client:
        client.connect(address)


def test_a_folder_that_others_can_reach_is_refused(tmp_path):
    """The socket would be only as private as its folder."""
    for wide in (0o755, 0o777):
        folder = tmp_path / f"wide{wide}"
        folder.mkdir()
        folder.chmod(wide)
        with pytest.raises(Forbidden):
            PrivateSocket(str(folder / "b.sock"))
        assert os.listdir(folder) == []


def test_a_file_in_the_place_of_the_socket_stays(address):
    """Nothing but an old socket is taken away."""
    Path(address).parent.mkdir(mode=0o700)
    Path(address).write_text("mine", encoding="utf-8")
    with pytest.raises(Forbidden, match="no socket"):
        PrivateSocket(address)
    assert Path(address).read_text(encoding="utf-8") == "mine"


def test_a_path_that_no_socket_can_have(tmp_path):
    """It is told before anything is made."""
    with pytest.raises(UsageError, match="at most"):
        PrivateSocket(str(tmp_path / ("x" * 120) / "b.sock"))
    assert os.listdir(tmp_path) == []


def test_the_default_address(monkeypatch, tmp_path):
    """In the user's run-time folder if there is one, else beside the user's other state."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_address() == str(tmp_path / "holdfast" / "bridge.sock")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    assert default_address().endswith("holdfast/bridge/bridge.sock")
    assert str(tmp_path / "none") not in default_address()


# -- serving -----------------------------------------------------------------------------------


async def test_clients_at_a_socket(hf, kit_of, address, monkeypatch):
    """Each is served by itself; one too many is told so; all are let go of at the end."""
    monkeypatch.setattr(bridge_module, "_CLIENTS_MAX", 2)
    with PrivateSocket(address) as listening:
        running = asyncio.ensure_future(Bridge(hf, kit_of("yes")).listen(listening))
        ends = [await asyncio.open_unix_connection(address) for _ in range(2)]
        for reader, writer in ends:
            writer.write(b'{"type": "session_create"}\n')
            assert json.loads(await reader.readline())["type"] == "session_created"
        reader, late = await asyncio.open_unix_connection(address)
        told = json.loads(await reader.readline())
        assert (told["type"], told["code"]) == ("error", "busy")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        for reader, writer in ends:
            assert await reader.read() == b""
            writer.close()
        late.close()
    assert len(hf.list()) == 2
    assert not any(found.open for found in hf.list())


def test_a_bridge_at_a_socket_in_a_process(bridge, address, store_root):
    """Sessions go from one client to the next; a request to end takes the socket away."""
    created, answered = converse(
        address, {"type": "session_create", "title": "Trip"}, {"type": "initialize", "demo_mode": True}
    )
    assert answered["demo_mode"] is True
    loaded, said = converse(
        address, {"type": "session_load", "session_id": created["session_id"]}, {"type": "session_list"}
    )
    assert loaded["message_count"] == 0
    assert said["sessions"][0]["title"] == "Trip"
    bridge.send_signal(signal.SIGTERM)
    assert bridge.wait(PATIENCE_S) == 0
    assert not os.path.exists(address)


def test_a_bridge_that_was_killed(start, address):
    """What was answered is there at the next one, which takes the place of the dead socket."""
    first = start()
    *_, said = converse(address, {"type": "initialize", "demo_mode": True}, {"type": "query", "query": "remember me"})
    first.kill()
    first.wait()
    assert os.path.exists(address)
    start()
    loaded, exported = converse(
        address,
        {"type": "session_load", "session_id": said["session_id"]},
        {"type": "session_export", "format": "text"},
    )
    assert loaded["message_count"] == 2
    assert "remember me" in exported["content"]


@pytest.mark.req("S2-84")
def test_a_client_in_another_language(bridge, address):
    """Node reads every answer with its own eyes: UTC times, titles that are texts or absent."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed, so there is no client in another language to try")
    done = subprocess.run([node, str(CLIENT), address], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    kinds = [each.get("type", "rpc") for each in told["seen"]]
    assert kinds == [
        "initialized",
        "session_created",
        "query_result",
        "session_saved",
        "session_list_result",
        "session_loaded",
        "session_exported",
        "rpc",
        "rpc",
        "error",
        "session_deleted",
    ]
    assert told["seen"][4]["sessions"][0]["title"] == "Über ☃ \N{HORSE}"
    assert "hello from node" in told["seen"][6]["content"]
    assert told["seen"][8]["result"]["response"].endswith("two")
    assert told["seen"][10]["success"] is True
    assert {each.get("type", each.get("method")) for each in told["notices"]} == {"stream_token", "stream.token"}


def test_the_bridge_on_standard_input(store_root):
    """One client, until its input ends; what it asked for is answered before."""
    asked = [{"type": "initialize", "demo_mode": True}, {"type": "query", "query": "hello"}]
    done = subprocess.run(
        [COMMAND, "--store", str(store_root), "bridge", "--stdio"],
        input="".join(json.dumps(each) + "\n" for each in asked),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["response"].endswith("hello")


def test_the_command_prints_the_schema_and_refuses_both_ways():
    """The schema is there for a program to read; one place at a time is served."""
    shown = CliRunner().invoke(cli, ["bridge", "--schema"])
    assert json.loads(shown.stdout)["$defs"]["session_info"]
    both = CliRunner().invoke(cli, ["bridge", "--stdio", "--socket", "x"])
    assert both.exit_code == 2
    assert "cannot be used together" in both.stderr


def test_what_the_command_is_asked_for(monkeypatch, store_root, tmp_path):
    """The place, the model, the agent and the store reach what serves."""
    served = []

    def socket_bridge(place, kit, address, *, ready):
        served.append((place, kit.agent_id, "local" in kit.about, address))
        ready(address)

    monkeypatch.setattr(bridge_module, "serve_socket", socket_bridge)
    monkeypatch.setattr(bridge_module, "serve_stdio", lambda place, kit: served.append("stdio"))
    options = ["--store", str(store_root), "bridge", "--model", "local", "--agent", "guide"]
    done = CliRunner().invoke(cli, [*options, "--socket", "/x/b.sock"])
    assert (done.exit_code, done.stderr) == (0, "Listening at /x/b.sock\n")
    assert CliRunner().invoke(cli, [*options, "--stdio"]).exit_code == 0
    assert served == [(str(store_root), "guide", True, "/x/b.sock"), "stdio"]


def test_serving_begins_and_ends_in_good_order(monkeypatch, store_root, kit_of, address, capfd):
    """The address is told once it is there, and gone at the end; output is only for messages."""
    told = []

    async def nobody(self, place):
        pass

    async def noisy(self):
        sys.stdout.write("a greeting\n")

    monkeypatch.setattr(Bridge, "listen", nobody)
    monkeypatch.setattr(bridge_module.Connection, "run", noisy)

    def ready(where):
        told.append((where, os.path.exists(where)))

    bridge_module.serve_socket(str(store_root), kit_of(), address, ready=ready)
    assert told == [(os.path.realpath(address), True)]
    assert not os.path.exists(address)
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        bridge_module.serve_stdio(str(store_root), kit_of())
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "a greeting\n")


def test_a_question_outlives_a_bridge_that_was_killed(hf, store_root):
    """After kill -9 it is in the inbox, the next bridge asks again, and the answer goes on."""
    command = [COMMAND, "--store", str(store_root), "bridge", "--stdio", "--model", "guide"]

    def talk(*messages):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for message in messages:
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        return process

    def hear(process, tag):
        while (message := json.loads(process.stdout.readline()))["type"] != tag:
            pass
        return message

    with talk({"type": "query", "query": "call this session Lisbon"}) as first:
        asked = hear(first, "tool_request_approval")
        first.kill()
    [one] = hf.waiting()
    assert (one.id, one.tool) == (asked["question"], "set_title")
    with talk({"type": "session_load", "session_id": one.session_id}, {"type": "resume"}) as second:
        assert hear(second, "tool_request_approval")["question"] == one.id
        hf.answer(one.id, True)
        assert "now called" in hear(second, "query_result")["response"]
        second.stdin.close()
    assert hf.info(one.session_id).title == "Lisbon"
