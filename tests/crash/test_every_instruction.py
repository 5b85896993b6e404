"""An interrupt between any two instructions: this process goes on, another one does, and nothing is lost or left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from campaign_log import FULL, record

PROGRAM = Path(__file__).parent / "interrupt_points.py"
SHORT = ("append", "append named", "append first", "append new", "extend", "flush", "open", "open new", "close")
LONG = ("tool", "snapshot", "fork", "archive", "redact", "erase", "copy", "import", "list", "search")
AWAITED = ("aflush", "abarrier", "aclose", "aonce", "aturn", "aopen", "await")
# Functions that an interrupt once left half done, in the operation that showed it.
ONCE_WRONG = ("close:_finish", "aclose:_finish", "open:walk_again", "open:_live_session", "aonce:_protocol")
ONCE_WRONG_ON_A_SERVER = ("append:append", "flush:wait")
IN_MEMORY = "/dev/shm"


def campaign(url, how, operations, few, many, *, unless_quick=()):
    """Interrupt each operation at so many boundaries, fewer in the push suite; fails with what went wrong.

    Those named ``unless_quick`` wait for a server, and do nothing to be interrupted when it was quicker.
    """
    count = str(many if FULL else few)
    # Another Python of the campaign's own choice: 3.12 and later have a monitor, 3.11 has a trace function only.
    command = [os.environ.get("CAMPAIGN_PYTHON", sys.executable), str(PROGRAM), url, how, count, *operations]
    place = {"TMPDIR": IN_MEMORY} if os.path.isdir(IN_MEMORY) else {}
    wrong, tried = [], dict.fromkeys([one.partition(":")[0] for one in operations], 0)
    # A file: a pipe that nobody reads meanwhile would be full one day, and hold up who writes into it.
    with (
        tempfile.TemporaryFile("w+") as told,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True, env=os.environ | place) as running,
    ):
        for line in running.stdout:
            one = json.loads(line)
            # At once: a campaign that is cut short has counted what it did.
            record("interrupts", one["tried"], wrong=len(one["wrong"]))
            tried[one["operation"]] += one["tried"]
            wrong += one["wrong"]
        running.wait()
        told.seek(0)
        said = told.read()
    # What was found first: a campaign that broke off afterwards has found it all the same.
    assert not wrong, "\n".join(wrong)
    assert running.returncode == 0, said[-3000:]
    assert all(count for name, count in tried.items() if name not in unless_quick), tried


@pytest.mark.slow
@pytest.mark.parametrize("operations", [SHORT, LONG], ids=["short", "long"])
def test_a_key_press_at_any_instruction_on_files(operations):
    """Whatever is interrupted on files can be done again, here and elsewhere, and leaves nothing behind."""
    chosen = operations if FULL else operations[-1:]
    campaign("{}/store", "press", chosen, 4, 0 if operations is SHORT else 1500)


@pytest.mark.slow
@pytest.mark.parametrize("operations", [SHORT, LONG], ids=["short", "long"])
def test_a_key_press_at_any_instruction_on_sqlite(operations):
    """The same on SQLite, where no transaction stays open either."""
    chosen = operations if FULL else operations[3:4]
    campaign("sqlite://{}/x.db", "press", chosen, 4, 0 if operations is SHORT else 1000)


@pytest.mark.slow
@pytest.mark.parametrize("operations", [SHORT, LONG], ids=["short", "long"])
def test_a_key_press_at_any_instruction_on_postgres(postgres_server, operations):
    """The same on PostgreSQL: what was asked of the server is called off, and no lease or transaction stays."""
    if not FULL and operations is LONG:
        pytest.skip("a part of `make torture`: a push looks at one operation of each store")
    url = postgres_server.url + "?schema=t{name}"
    campaign(url, "press", operations if FULL else operations[-1:], 4, 2000 if operations is SHORT else 300)


@pytest.mark.slow
@pytest.mark.parametrize("operations", [SHORT, LONG], ids=["short", "long"])
def test_a_key_press_at_any_instruction_on_s3(request, operations):
    """The same on a bucket, where a lease that nobody holds would last for its whole term."""
    if not FULL:
        pytest.skip("a part of `make torture`: a server of buckets takes longer to start than a push has for it")
    url = request.getfixturevalue("seaweed_server").url("{name}")
    campaign(url, "press", operations, 2, 600 if operations is SHORT else 100)


@pytest.mark.slow
def test_a_key_press_where_one_once_left_something_behind():
    """A closing, an opening or a step that is interrupted anywhere leaves no lease, descriptor or place in a queue."""
    campaign("{}/store", "press", ONCE_WRONG, 10, 0)


@pytest.mark.slow
def test_a_key_press_where_one_once_broke_what_is_sent_later(postgres_server):
    """An append or a wait that is interrupted anywhere leaves the queue in step, and its lock free."""
    campaign(postgres_server.url + "?schema=t{name}", "press", ONCE_WRONG_ON_A_SERVER, 10, 0, unless_quick=("flush",))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["press", "cancel"])
def test_what_is_awaited_is_interrupted_at_any_instruction(how):
    """What is awaited and then interrupted or cancelled is done or not done, and everything goes on."""
    campaign("{}/store", how, AWAITED if FULL else AWAITED[:1], 4, 1500)


@pytest.mark.slow
def test_what_is_awaited_is_cancelled_at_any_instruction_on_postgres(postgres_server):
    """A task that is cancelled while a thread of the store works for it waits for that, and leaves nothing."""
    campaign(postgres_server.url + "?schema=t{name}", "cancel", AWAITED if FULL else AWAITED[1:2], 4, 300)


@pytest.mark.slow
@pytest.mark.parametrize("url", ["{}/store", "sqlite://{}/x.db"], ids=["files", "sqlite"])
def test_a_process_that_ends_at_any_instruction(url):
    """What another process finds is whole, and has all that was acknowledged."""
    campaign(url, "exit", (*SHORT, *LONG) if FULL else ("append new",), 4, 400)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["postgres_server", "seaweed_server"])
def test_a_process_that_ends_at_any_instruction_on_a_server(request, server):
    """The same on stores that a lease and threads of their own belong to."""
    if not FULL:
        pytest.skip("a part of `make torture`: each of these opens a connection anew")
    found = request.getfixturevalue(server)
    url = found.url("{name}") if server == "seaweed_server" else found.url + "?schema=t{name}"
    campaign(url, "exit", (*SHORT, *LONG), 2, 40)
