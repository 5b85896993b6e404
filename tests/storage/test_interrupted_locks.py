"""Ctrl-C at the wrong moment: no lock and no transaction stays with nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import holdfast
from holdfast.storage.sqlite.connection import connect_memory, transaction


def run(program, *arguments):
    """A program of its own, for what it may hang in; what it printed."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


AS_A_LOCK_IS_TAKEN = """
    import asyncio, sys, threading, holdfast

    hf = holdfast.open(sys.argv[1])
    which = sys.argv[2]
    s = hf.session("a")
    s.user("x")

    def interrupt(frame, event, argument):
        # Where CPython delivers a signal: as Python code that took a lock returns.
        entering = frame.f_code is threading.Condition.__enter__.__code__
        if event == "return" and entering and frame.f_back.f_code.co_name == which:
            sys.setprofile(None)
            raise KeyboardInterrupt

    async def work():
        await s.aflush()  # from here on there is a thread
        s.user("y")
        sys.setprofile(interrupt)
        try:
            hf.session("b")
            await s.aflush()
        except KeyboardInterrupt:
            pass
        sys.setprofile(None)
        s.user("z")
        await s.aflush()

    asyncio.run(work())
    hf.close()
    print("closed")
"""


@pytest.mark.parametrize("method", ["watch", "sync", "every"])
def test_an_interrupt_as_a_lock_is_taken_leaves_it_free(tmp_path, method):
    """The catalogue's, the flusher's and the timers' threads go on, and so does closing."""
    assert run(AS_A_LOCK_IS_TAKEN, tmp_path / "store", method) == ["closed"]


HOLDS_THE_FILE = """
    import sqlite3, sys
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    print("held", flush=True)
    sys.stdin.readline()
    connection.execute("COMMIT")
"""


def test_an_interrupt_while_sqlite_waits_leaves_no_transaction(tmp_path):
    """Interrupted while another process writes: this one goes on, and others are not kept out."""
    path = tmp_path / "x.db"
    with holdfast.open(f"sqlite://{path}") as hf:
        s = hf.session("a")
        s.user("first")
        s.flush()
        command = [sys.executable, "-c", textwrap.dedent(HOLDS_THE_FILE), str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            other.stdout.readline()

            def press_and_let_go():
                os.kill(os.getpid(), signal.SIGINT)
                other.stdin.close()

            # The signal comes while the append waits; it is raised when the wait is over.
            threading.Timer(0.5, press_and_let_go).start()
            with pytest.raises(KeyboardInterrupt):
                s.user("interrupted")
        s.user("after")
        s.flush()
        program = """
            import sys, holdfast
            with holdfast.open(sys.argv[1]) as hf, hf.session("b") as s:
                print(s.user("x").seq >= 0)
        """
        assert run(program, f"sqlite://{path}") == ["True"]
        said = [event.data["content"] for event in s.events() if event.type == "user"]
        s.close()
    assert (said[0], said[-1]) == ("first", "after")


def test_a_transaction_that_was_left_open_is_rolled_back():
    """Interrupted on its way out, before anything could clean up: the next one does."""
    connection = connect_memory()
    connection.isolation_level = None
    connection.execute("CREATE TABLE t (x)")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO t VALUES (1)")
    with transaction(connection):
        connection.execute("INSERT INTO t VALUES (2)")
    assert connection.execute("SELECT x FROM t").fetchall() == [(2,)]
    assert not connection.in_transaction
