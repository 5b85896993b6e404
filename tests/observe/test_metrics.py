"""Metrics: each is counted where it should be, and Prometheus can read them."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast import Holdfast
from holdfast.errors import Damaged, Fenced, Locked, NotFound, StoreFull, Unavailable
from holdfast.model import Notice
from holdfast.observe import METRICS, Figures, Metrics, dashboard, store_figures
from holdfast.session import Finished


@pytest.fixture
def metrics(hf):
    """What watches the store of a test."""
    found = Metrics()
    hf.observe(found)
    return found


def value(metrics, name, *labels):
    """One figure."""
    return metrics.figures.value(f"holdfast_{name}", *labels)


def read(text):
    """What Prometheus's own reader makes of a text: value by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_recorded_is_counted(hf, metrics):
    """Every way to record is counted, and the bytes are those of the log."""
    with hf.session("a") as s:
        s.user("one")
        s.append("assistant", {"role": "assistant", "content": "two"})
        s.extend([("user", {"content": "x"}), ("user", {"content": "y"})])
        with s.tool("t") as call:
            call.result = 1
        s.flush()
        assert value(metrics, "bytes_total") == hf.store.log("sessions/a").size()
    assert value(metrics, "events_total") == 6
    assert value(metrics, "append_seconds") == 5


def test_flushes_and_syncs_are_timed(hf, metrics):
    """A flush has its own time, and the medium's part in it has one."""
    with hf.session("a") as s:
        s.user("x")
        s.flush()
        before = value(metrics, "flush_seconds"), value(metrics, "sync_seconds")
        s.flush()
        after = value(metrics, "flush_seconds"), value(metrics, "sync_seconds")
        assert (after[0] - before[0], after[1] - before[1]) == (1, 1)


async def test_flushes_of_an_event_loop_are_timed(hf, metrics):
    """``aflush`` counts like ``flush``."""
    async with hf.session("a") as s:
        s.user("x")
        await s.aflush()
        assert (value(metrics, "flush_seconds"), value(metrics, "sync_seconds")) == (1, 1)


@pytest.mark.req("S4-64")
@pytest.mark.req("S4-65")
@pytest.mark.req("S4-67")
def test_snapshots_that_succeed(hf, metrics):
    """How many, how large, and how long; one that was not needed is none."""
    with hf.session("a") as s:
        s.user("x")
        s.snapshot()
        s.snapshot()
    assert value(metrics, "snapshots_total", "ok") == 1
    assert value(metrics, "snapshots_total", "failed") == 0
    assert value(metrics, "snapshot_size_bytes") == 1
    assert value(metrics, "snapshot_seconds") == 1


@pytest.mark.req("S4-63")
@pytest.mark.req("S4-64")
def test_snapshots_that_fail(hf, metrics, monkeypatch):
    """A failure is told with its code, and counted apart."""
    told = []
    hf.subscribe(lambda _, item: told.append(item))

    def full(*_):
        raise StoreFull

    with hf.session("a") as s:
        s.user("x")
        monkeypatch.setattr(s._journal.keeper._schedule, "save", full)
        with pytest.raises(StoreFull):
            s.snapshot()
    assert value(metrics, "snapshots_total", "failed") == 1
    assert value(metrics, "snapshot_seconds") == 0
    assert value(metrics, "errors_total", "snapshot", StoreFull.code) == 1
    failed = [item for item in told if isinstance(item, Notice) and item.kind == "snapshot_failed"]
    assert failed[0].detail["code"] == "SNAPSHOT_ERROR"


@pytest.mark.req("S4-61")
@pytest.mark.req("S4-62")
def test_snapshots_and_restores_are_events(hf):
    """``snapshot_created`` has the size, ``session_restored`` the age."""
    told = {}
    hf.subscribe(
        lambda name, item: told.setdefault(item.kind, (name, item.detail)) if isinstance(item, Notice) else None
    )
    with hf.session("a") as s:
        s.user("x")
        s.snapshot()
    with hf.session("a"):
        pass
    assert told["snapshot_created"][0] == told["session_restored"][0] == "a"
    assert told["snapshot_created"][1]["size_bytes"] > 0
    assert told["session_restored"][1]["age"] >= 0


@pytest.mark.req("S4-66")
@pytest.mark.req("S4-68")
def test_restores(hf, metrics, store_root):
    """A new session is loaded; one with a past is restored, or could not be."""
    with hf.session("a") as s:
        s.user("x")
    assert value(metrics, "load_seconds") == 1
    assert value(metrics, "restores_total", "ok") == 0
    with hf.session("a") as s:
        s.user("y")
    hf.session("a", read_only=True)
    assert value(metrics, "restores_total", "ok") == 2
    assert value(metrics, "restore_seconds") == 2
    log = store_root / "sessions" / "a" / "events.jsonl"
    text = log.read_bytes()
    log.write_bytes(text.replace(b'"x"', b'"z"'))
    with pytest.raises(Damaged):
        hf.session("a")
    assert value(metrics, "restores_total", "failed") == 1
    assert value(metrics, "errors_total", "load", Damaged.code) == 1


def test_what_is_asked_wrongly_is_no_failed_restore(hf, metrics, store_root):
    """A session that is not there counts as an error only; one in use is told apart."""
    with pytest.raises(NotFound):
        hf.session("none", resume="always")
    assert [value(metrics, "restores_total", how) for how in ("ok", "failed", "locked")] == [0] * 3
    assert value(metrics, "errors_total", "load", NotFound.code) == 1
    metrics.end(None, Finished(operation="load", session_id="a", seconds=1, error=Locked(session_id="a")))
    assert value(metrics, "restores_total", "locked") == 1


def test_sessions_that_are_open(hf, metrics):
    """They are counted as long as they are open."""
    first, second = hf.session("a"), hf.session("b")
    assert read(metrics.text())["holdfast_sessions_active",] == 2
    first.close()
    assert read(metrics.text())["holdfast_sessions_active",] == 1
    second.close()
    assert read(metrics.text())["holdfast_sessions_active",] == 0


def test_recovery_issues(hf, metrics, store_root):
    """Torn tails, turns that never ended, and what conversations lacked, by type."""
    s = hf.session("a")
    s.append("turn_start", {})
    s.user("x")
    s.tool_call("t", {})
    s.close()
    log = store_root / "sessions" / "a" / "events.jsonl"
    *lines, _closed = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines) + b'{"seq":9')
    (log.parent / "lock").unlink()  # as if it had never been closed
    with hf.session("a") as s:
        s.user("y")
    assert value(metrics, "recovery_issues_total", "torn_tail") == 1
    assert value(metrics, "recovery_issues_total", "interrupted") == 1
    issues = hf.recover("a").issues
    assert issues
    assert value(metrics, "recovery_issues_total", issues[0].type) > 0


def test_everything_that_happens_to_sessions_is_counted(hf, metrics):
    """Leases, archiving, repair and pruning are notices, each counted by its kind."""
    with hf.session("a") as s:
        s.user("x")
    hf.archive("a")
    hf.unarchive("a")
    hf.delete("a")
    for kind in ("lease_acquired", "lease_released", "archived", "unarchived", "deleted"):
        assert value(metrics, "notices_total", kind) == 1, kind


def test_spaces_are_watched_with_their_store(hf, metrics):
    """Sessions of a space count like others, also of one that was opened later."""
    with hf.space("alice") as alice, alice.session("a") as s:
        s.user("x")
        assert metrics.active == 1
    assert value(metrics, "events_total") == 1
    assert value(metrics, "notices_total", "lease_acquired") == 1


def test_a_space_is_heard_once_whoever_opens_its_first_session(store_root, monkeypatch):
    """Two threads open the first sessions of a space at the same moment: nothing counts twice."""
    together = threading.Barrier(2)

    def ask(core):
        """Have both ask whether it is heard before any of them goes on, if that can be."""
        known = core.known
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.2)
        return known

    def tell(core, value):
        core.known = value

    with Holdfast("memory:") as other:
        monkeypatch.setattr(type(other._core), "is_heard", property(ask, tell), raising=False)
    metrics = Metrics()
    with Holdfast(store_root, timers=False) as hf:
        hf.observe(metrics)
        together.reset()
        with hf.space("alice") as alice:
            threads = [threading.Thread(target=record, args=(alice, id)) for id in ("a", "b")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert value(metrics, "notices_total", "lease_acquired") == 2


def record(library, session_id):
    """A session with one event."""
    with library.session(session_id) as s:
        s.user("x")


def test_an_observer_can_leave(hf):
    """What it gave back ends it; sessions go on."""
    metrics = Metrics()
    stop = hf.observe(metrics)
    with hf.session("a") as s:
        s.user("x")
        stop()
        s.user("y")
    assert value(metrics, "events_total") == 1


def test_an_observer_that_fails_disturbs_nobody(hf):
    """Whatever it raises, sessions and other observers do not notice."""

    class Bad(Metrics):
        def begin(self, operation, session_id):
            raise ValueError

        def end(self, begun, done):
            raise ValueError

        def tell(self, session_id, item):
            raise ValueError

    good = Metrics()
    hf.observe(Bad())
    hf.observe(good)
    with hf.session("a") as s:
        s.user("x")
        s.snapshot()
    assert value(good, "events_total") == 1
    assert value(good, "snapshots_total", "ok") == 1
    assert [event.type for event in hf.events("a")][-2:] == ["user", "closed"]


def test_nobody_is_watched_unless_asked_for(hf):
    """A session of a store without observers is an ordinary one."""
    with hf.session("a") as s:
        assert type(s) is holdfast.Session


def test_nothing_is_loaded_unless_it_is_used(tmp_path):
    """Recording loads neither this room, nor OpenTelemetry, nor what watches sessions."""
    code = f"""
import sys, holdfast
with holdfast.open({str(tmp_path / "s")!r}) as hf, hf.session("a") as s:
    s.user("x")
    s.flush()
bad = [name for name in sys.modules if name.startswith(
    ("holdfast.observe", "holdfast.session._observers", "holdfast.integrations",
     "opentelemetry", "prometheus_client", "logging"))]
print(bad)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == []


# -- the text ----------------------------------------------------------------------------------


def test_the_text_is_what_prometheus_reads(hf, metrics):
    """Its own reader finds every figure, and the kinds and helps that were meant."""
    with hf.session("a") as s:
        s.user("x")
        s.snapshot()
    found = read(metrics.text())
    assert found["holdfast_events_total",] == 1
    assert found["holdfast_snapshots_total", ("result", "ok")] == 1
    assert found["holdfast_append_seconds_bucket", ("le", "+Inf")] == 1
    assert found["holdfast_append_seconds_count",] == 1
    assert 0 < found["holdfast_append_seconds_sum",] < 10
    for family in text_string_to_metric_families(metrics.text()):
        name = family.name + ("_total" if family.type == "counter" else "")
        assert (family.type, family.documentation) == (METRICS[name].kind, METRICS[name].help)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 100)), st.text(max_size=20))
def test_any_values_and_labels_come_out_as_they_went_in(values, label):
    """Sums, counts and buckets agree with the values; labels may be any text."""
    figures = Figures()
    for one in values:
        figures.observe("holdfast_append_seconds", one)
    figures.add("holdfast_notices_total", 2, label)
    found = read(figures.text())
    assert found["holdfast_append_seconds_count",] == len(values)
    assert found["holdfast_append_seconds_sum",] == pytest.approx(sum(values))
    assert found["holdfast_append_seconds_bucket", ("le", "1")] == sum(v <= 1 for v in values)
    assert found["holdfast_notices_total", ("kind", label)] == 2


def test_the_first_failure_is_a_change():
    """What may fail is 0 from the beginning, so that a rate can be made of the first one."""
    found = read(Metrics().text())
    assert found["holdfast_snapshots_total", ("result", "failed")] == 0
    assert found["holdfast_restores_total", ("result", "failed")] == 0


# -- the store ---------------------------------------------------------------------------------


def test_a_look_at_a_store(hf):
    """How many, how large, which states, how far the catalogue is behind, what is in the trash."""
    for id in ("a", "b", "c"):
        with hf.session(id) as s:
            s.user("x")
    hf.delete("c")
    hf.archive("b")
    with hf.session("a") as s:
        s.user("y")
        found = read(store_figures(hf).text(("gauge",)))
    assert found["holdfast_up",] == 1
    assert found["holdfast_sessions",] == 2
    assert found["holdfast_sessions_by_state", ("state", "ok")] == 2
    assert found["holdfast_sessions_by_status", ("status", "idle")] == 2
    assert found["holdfast_sessions_open",] == 1
    assert found["holdfast_sessions_archived",] == 1
    assert found["holdfast_trash_sessions",] == 1
    assert found["holdfast_stored_bytes",] > 500
    assert found["holdfast_disk_free_bytes",] > 0
    assert found["holdfast_last_activity_seconds",] > 1e9
    assert found["holdfast_index_lag_sessions",] > 0


def test_how_far_the_catalogue_is_behind(hf):
    """As many bytes as logs have grown since it was asked last; none when it has just been."""
    with hf.session("a") as s:
        s.user("x")
        hf.list()
        before = hf.store.log("sessions/a").size()
        s.user("y")
        grown = hf.store.log("sessions/a").size() - before
        health = hf.catalog_health()
        assert (health.lag_sessions, health.lag_bytes) == (1, grown)
        health = hf.catalog_health()
        assert (health.lag_sessions, health.lag_bytes) == (0, 0)


def test_a_store_that_cannot_be_used(hf, monkeypatch):
    """It is down, and nothing else is said of it."""

    def gone():
        raise Unavailable

    monkeypatch.setattr(hf.store, "check", gone)
    found = read(store_figures(hf).text(("gauge",)))
    assert found["holdfast_up",] == 0
    assert ("holdfast_sessions",) not in found


def test_a_store_that_is_no_folder(tmp_path):
    """Free space is told where there is such a thing."""
    with holdfast.open("memory:") as hf:
        found = read(store_figures(hf).text(("gauge",)))
    assert found["holdfast_sessions",] == 0
    assert ("holdfast_disk_free_bytes",) not in found


# -- the dashboard -----------------------------------------------------------------------------


def test_every_metric_of_the_dashboard_is_there():
    """Each name in it is a metric with those labels, and each metric but two is shown."""
    made = json.loads(dashboard())
    asked = [target["expr"] for panel in made["panels"] for target in panel.get("targets", ())]
    found = set()
    for expression in asked:
        for name in re.findall(r"holdfast_\w+", expression):
            base = re.sub(r"_bucket$", "", name)
            assert base in METRICS, name
            assert (name != base) == (METRICS[base].kind == "histogram"), name
            found.add(base)
        for labels in re.findall(r"by \(([^)]*)\)", expression):
            shown = {name for one in re.findall(r"holdfast_\w+", expression)
                     for name in METRICS[re.sub(r"_bucket$", "", one)].labels}  # fmt: skip
            assert set(labels.replace(" ", "").split(",")) - {"le"} <= shown, expression
    assert set(METRICS) - found == {"holdfast_info"}
    ids = [panel["id"] for panel in made["panels"]]
    assert len(ids) == len(set(ids))


def test_the_dashboard_reaches_nobody():
    """It asks for a data source when it is imported, and names no host."""
    text = dashboard()
    assert "://" not in text
    assert "${datasource}" in text


def test_a_lost_lease_is_told(hf, metrics):
    """Whoever is fenced is told so once, as an event of its own."""
    with hf.session("a") as s:
        s.user("x")
        s._journal.writer.failed(Fenced(session_id="a"))
        s._journal.writer.failed(Fenced(session_id="a"))
    assert value(metrics, "notices_total", "lease_lost") == 1


def test_a_lost_lease_is_told_without_being_asked(store_root):
    """Where there are timers it is told at once, and not only when the session is closed."""
    told = threading.Event()
    with Holdfast(store_root) as hf:
        hf.subscribe(lambda _, item: told.set() if getattr(item, "kind", "") == "lease_lost" else None)
        with hf.session("a") as s:
            s.user("x")
            s._journal.writer.failed(Fenced(session_id="a"))
            assert told.wait(120)
