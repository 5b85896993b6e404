"""The primary of PostgreSQL is killed in mid flush and its standby takes over, again and again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from campaign_log import FULL, record

import holdfast
from holdfast.errors import Fenced, Unavailable
from holdfast.storage.postgres.store import PostgresStore

CHILD = Path(__file__).with_name("failover_child.py")
SERIES, FAILOVERS = (10, 20) if FULL else (1, 1)
"""So often two servers begin anew, and so often one of them is killed then."""
WRITERS = 3
WAIT_S = 200


class Pair:
    """A primary that waits for its standby with each commit, and that standby."""

    def __init__(self, servers, standby_names):
        self.primary, self.standby = servers
        for server in servers:
            server.settings = {"synchronous_standby_names": standby_names, "max_wal_size": "64MB"}
        self.primary.make()
        self.primary.start()
        self._follow()

    def url(self, **options):
        """The address that has both hosts, the one that is the standby first."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        hosts = f"127.0.0.1:{self.standby.port},127.0.0.1:{self.primary.port}"
        return f"postgresql://holdfast@{hosts}/postgres?target_session_attrs=read-write&{query}"

    def fail_over(self):
        """Kill the primary; the standby takes its place, and what is left of the primary is thrown away."""
        self.primary.kill()
        self.replace_primary()
        shutil.rmtree(self.standby.data)
        self._follow()

    def leave_behind(self):
        """Stop the standby, which has everything up to now."""
        until = time.monotonic() + WAIT_S
        while self.primary.ask("SELECT replay_lsn < pg_current_wal_lsn() FROM pg_stat_replication") != "f":
            assert time.monotonic() < until, "the standby does not follow"
        self.standby.stop()

    def replace_primary(self):
        """Promote the standby, which may have been stopped, in the place of the primary that was killed."""
        if self.standby.process.poll() is not None:
            self.standby.start()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def _follow(self):
        self.standby.make_standby(self.primary)
        self.standby.start()


@pytest.fixture
def pair(new_server, request):
    """Two servers of which one follows the other, and is waited for unless a test says otherwise."""
    with ExitStack() as held:
        servers = [held.enter_context(new_server()) for _ in range(2)]
        yield Pair(servers, getattr(request, "param", "standby"))


@pytest.mark.slow
@pytest.mark.parametrize("series", range(SERIES))
def test_the_primary_is_killed_in_mid_flush_and_the_standby_takes_over(pair, tmp_path, capsys, series):
    """Nothing acknowledged is lost, nothing is there twice, order is kept, and who was fenced stays fenced."""
    url = pair.url(retry_s=250)
    stop = tmp_path / "stop"
    outs = {f"s{number}": tmp_path / f"out-{number}" for number in range(WRITERS)}
    with holdfast.open(url) as hf, _writers(url, stop, outs) as writers:
        for number in range(FAILOVERS):
            _go_on(outs, writers)
            with _overtaken(url, f"sessions/old-{number}") as (log, epoch):
                time.sleep(random.random() * 0.05)
                acknowledged = {id: _count(out) for id, out in outs.items()}
                pair.fail_over()
                log.append(b"late\n", 1, 1, epoch)
                with pytest.raises(Fenced):
                    log.sync()
            for id, least in acknowledged.items():
                _check(hf, id, least)
            record("failovers", 1)
        _go_on(outs, writers)
        stop.touch()
        for writer in writers:
            assert writer.wait(WAIT_S) == 0
        total = sum(_check(hf, id, _count(out)) for id, out in outs.items())
        assert all(hf.verify(id).ok for id in outs)
    with capsys.disabled():
        print(f" [{series}: {FAILOVERS} failovers, {total:,} events] ", end="")  # noqa: T201 - a figure to see


def test_a_flush_that_the_standby_did_not_confirm_is_not_acknowledged(pair):
    """The standby hangs: a wait that is called off leaves lines on the primary alone; they do not count as stored."""
    with holdfast.open(pair.url(statement_s=1, retry_s=3)) as hf:
        s = hf.session("s", autosave_ms=0, snapshot_ms=0)
        s.user("on both")
        s.flush()
        _signal(pair.standby, signal.SIGSTOP)
        try:
            s.user("on one")
            with pytest.raises(Unavailable) as caught:
                s.flush()
        finally:
            _signal(pair.standby, signal.SIGCONT)
        assert caught.value.fields["outcome"] == "unknown"


@pytest.mark.parametrize("pair", [""], indirect=True)
def test_a_primary_that_waits_for_nobody_loses_and_that_is_noticed(pair):
    """What the standby did not get is lost with the primary: the check of these tests says so."""
    with holdfast.open(pair.url()) as hf:
        _say(hf, "s", "0")
        pair.leave_behind()
        _say(hf, "s", "1")
        pair.primary.kill()
        pair.replace_primary()
        with pytest.raises(AssertionError, match="1 acknowledged events of s are lost"):
            _check(hf, "s", 2)


@pytest.mark.parametrize("pair", [""], indirect=True)
def test_a_mark_of_the_old_primary_hides_nothing_of_the_new_one(pair):
    """Numbers of transactions that were lost are given again: a catalogue that knew them compares everything."""
    with holdfast.open(pair.url()) as hf:
        _say(hf, "s", "0")
        pair.leave_behind()
        for _ in range(300):
            hf.store.link.fetch("SELECT pg_current_xact_id()::text")
        mark = hf.store.changes("").mark
        pair.primary.kill()
        pair.replace_primary()
        _say(hf, "new", "0")
        assert hf.store.changes(mark).keys is None


def _say(hf, id, text):
    with hf.session(id, autosave_ms=0, snapshot_ms=0) as s:
        s.user(text)


def _signal(server, number):
    """To each process of a server."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    for pid in (server.process.pid, *map(int, children)):
        os.kill(pid, number)


@contextmanager
def _writers(url, stop, outs):
    writers = [subprocess.Popen([sys.executable, CHILD, url, id, stop, out]) for id, out in outs.items()]
    try:
        yield writers
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


@contextmanager
def _overtaken(url, key):
    """The log and the epoch of a writer that another one overtook, which it does not know yet."""
    first, second = PostgresStore(url), PostgresStore(url)
    try:
        epoch = first.lease(key).acquire("first", 60_000)
        log = first.log(key)
        log.append(b"one\n", 0, 1, epoch)
        log.sync()
        first.link.fetch(
            "UPDATE heads h SET expires = clock_timestamp() - interval '1 hour' FROM names n"
            " WHERE n.id = h.id AND n.key = $1 RETURNING h.id",
            key,
        )
        second.lease(key).acquire("second", 60_000)
        yield log, epoch
        assert b"".join(second.log(key).read()) == b"one\n"
    finally:
        first.close()
        second.close()


def _go_on(outs, writers):
    """Wait until each writer has had more acknowledged than before."""
    before = {out: _count(out) for out in outs.values()}
    until = time.monotonic() + WAIT_S
    while any(_count(out) <= count + 2 for out, count in before.items()):
        assert all(writer.poll() is None for writer in writers), "a writer gave up"
        assert time.monotonic() < until, "work did not go on"
        time.sleep(0.02)


def _count(out):
    """How many events of a writer were acknowledged."""
    return out.read_bytes().count(b"\n") if out.exists() else 0


def _check(hf, id, least):
    """How many events a session has: all from the first one on, each once, and no less than so many."""
    texts = [event.data["content"] for event in hf.events(id, types=["user"])]
    assert texts == [str(number) for number in range(len(texts))]
    assert len(texts) >= least, f"{least - len(texts)} acknowledged events of {id} are lost"
    return len(texts)
