"""Storms of SIGSTOP, SIGCONT and SIGKILL over the apps, while others write beside them."""

from __future__ import annotations

import random
import signal
import threading
import time
from contextlib import contextmanager

import pytest
from campaign_log import FULL, record
from storm_apps import APPS, GONE

from holdfast import Holdfast

ROUNDS = 60 if FULL else 1
STOPS_MAX = 3
PATIENCE_S = 120


class Storm:
    """One app that is started again and again, and what it acknowledged."""

    def __init__(self, kind, store, seed):
        self.kind = kind
        self.store = store
        self.chance = random.Random(seed)
        self.told = {}
        """By session: what was acknowledged."""

    def blow(self):
        """One life of the app, with stops in it, until it is killed."""
        app = APPS[self.kind](self.store)
        tokens = self.told.setdefault(app.session, [])
        begun = threading.Event()
        worker = threading.Thread(target=self._work, args=(app, tokens, begun))
        worker.start()
        try:
            begun.wait(PATIENCE_S)
            for _ in range(self.chance.randrange(STOPS_MAX)):
                time.sleep(self.chance.uniform(0, app.calm_s_max / STOPS_MAX))
                app.process.send_signal(signal.SIGSTOP)
                self.look()  # nobody else is held up by one who is stopped
                app.process.send_signal(signal.SIGCONT)
            time.sleep(self.chance.uniform(0, app.calm_s_max))
        finally:
            app.process.kill()
            worker.join(PATIENCE_S)
            app.end()
        assert not worker.is_alive(), "a client of a killed app waits for ever"

    def _work(self, app, tokens, begun):
        try:
            for token in app.work():
                begun.set()
                if token is not None:
                    tokens.append(token)
        except GONE:
            begun.set()

    @contextmanager
    def library(self):
        """The sessions where the app keeps them."""
        with Holdfast(self.store, timers=False) as hf:
            space = APPS[self.kind].space
            yield hf if space is None else hf.space(space)

    def acknowledged(self):
        return {id: list(tokens) for id, tokens in self.told.items() if id is not None and tokens}

    def look(self):
        """What was acknowledged is there, all is whole and listed; others can write meanwhile."""
        told = self.acknowledged()
        with self.library() as hf:
            for id, tokens in told.items():
                assert not hf.verify(id).gaps
                text = b"\n".join(bytes(event.raw) for event in hf.events(id))
                assert [token for token in tokens if token.encode() not in text] == []
            with hf.session("beside") as session:
                session.user("not held up")
            assert {row.session_id for row in hf.list(limit=None)} >= {"beside", *told}

    def go_on(self):
        """Each session goes on where the app was killed."""
        with self.library() as hf:
            for id in [*self.acknowledged(), "beside"]:
                with hf.session(id) as session:
                    session.user("after the storm")
                assert hf.verify(id).ok


@pytest.mark.slow
@pytest.mark.parametrize("kind", APPS)
def test_storm_over_an_app(kind, store_root):
    """Stopped, continued and killed at any moment: what it acknowledged is there and goes on."""
    storm = Storm(kind, store_root, kind)
    storm.look()
    for _ in range(ROUNDS):
        storm.blow()
        storm.look()
    storm.go_on()
    writes = APPS[kind].writes
    assert sum(map(len, storm.acknowledged().values())) >= (ROUNDS // 2 if writes else 0)
    record("storms", ROUNDS)
