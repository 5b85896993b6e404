"""A real server of buckets that is killed while sessions write."""

from __future__ import annotations

import threading
import time
from uuid import uuid4

import pytest
from campaign_log import FULL, record

import holdfast
from holdfast.errors import HoldfastError

SESSIONS = 4
# After each the server takes some seconds until it stores again.
KILLS = 20 if FULL else 1
VOLUME_KILLS = 30 if FULL else 1
SECONDS = 0.7
QUICK = {"autosave_ms": 0, "snapshot_ms": 0}


class Writers:
    """Sessions that write and flush until they are told to stop, and note what was acknowledged."""

    def __init__(self, hf):
        self.acknowledged = {f"s{number}": [] for number in range(SESSIONS)}
        self.errors = []
        self._hf = hf
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(id,)) for id in self.acknowledged]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def count(self):
        return sum(map(len, self.acknowledged.values()))

    def wait_for(self, more):
        """Until so many more were acknowledged, of every session together."""
        goal, until = self.count() + more, time.monotonic() + 120
        while self.count() < goal and not self.errors:
            assert time.monotonic() < until, "work does not go on"
            time.sleep(0.02)

    def _write(self, id):
        try:
            with self._hf.session(id, **QUICK) as session:
                while not self._stop.is_set():
                    text = f"{id} {len(self.acknowledged[id])}"
                    session.user(text)
                    session.flush()
                    self.acknowledged[id].append(text)
        except HoldfastError as error:
            self.errors.append(error)


def check(url, writers):
    """Every acknowledged line is there once, in its order, and at most one more; what was counted is recorded."""
    assert writers.errors == []
    with holdfast.open(url) as hf:
        for id, texts in writers.acknowledged.items():
            assert hf.verify(id).ok
            said = [event.data["content"] for event in hf.events(id, types=["user"])]
            assert said[: len(texts)] == texts
            assert len(set(said)) == len(said) <= len(texts) + 1


@pytest.mark.slow
def test_a_server_of_buckets_killed_and_started_again_under_load(seaweed_server):
    """Killed with -9: nothing acknowledged is lost, nothing is there twice, and work goes on."""
    # A busy machine takes its time to start a server.
    url = f"{seaweed_server.url(uuid4().hex)}&retry_s=200"
    with holdfast.open(url) as hf, Writers(hf) as writers:
        writers.wait_for(8)
        for _ in range(KILLS):
            seaweed_server.stop()
            time.sleep(SECONDS)
            seaweed_server.start()
            writers.wait_for(8)
    check(url, writers)
    record("bucket kills", KILLS)


@pytest.mark.slow
def test_one_of_three_servers_of_volumes_killed_under_load(seaweed_cluster):
    """Each object is on two of three: while one is gone work goes on, and nothing acknowledged is lost or doubled."""
    url = f"{seaweed_cluster.front.url(uuid4().hex)}&retry_s=200"
    with holdfast.open(url) as hf, Writers(hf) as writers:
        writers.wait_for(8)
        for number in range(VOLUME_KILLS):
            volume = seaweed_cluster.volumes[number % 3]
            volume.stop()
            writers.wait_for(8)
            if number == VOLUME_KILLS - 1:
                break  # what it has is read without it
            volume.launch()
            writers.wait_for(8)
    check(url, writers)
    record("volume kills", VOLUME_KILLS)
