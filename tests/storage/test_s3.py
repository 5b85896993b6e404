"""The store in a bucket when others are at work on it, answers get lost, objects are foreign."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from contextlib import closing, suppress
from uuid import uuid4

import pytest

from holdfast.errors import (
    Conflict,
    Damaged,
    Fenced,
    Forbidden,
    HoldfastError,
    Locked,
    NotFound,
    Unavailable,
    UsageError,
)
from holdfast.storage import open_store
from holdfast.storage.s3.key import held
from holdfast.storage.s3.log import HEAD_BYTES, LogObjects
from holdfast.storage.s3.store import ObjectStore

KEY = "sessions/a"


@pytest.fixture
def url(seaweed_server):
    """A prefix that nobody used before."""
    return seaweed_server.url(uuid4().hex)


@pytest.fixture
def stores(url):
    """Two stores at the same place, as on two machines."""
    with closing(ObjectStore(url)) as one, closing(ObjectStore(url)) as two:
        yield one, two


def written(store, *lines, key=KEY):
    """A log with these lines, whose writer still holds the lease, and its epoch."""
    lease = store.lease(key)
    epoch = lease.acquire("me", 60_000)
    log = store.log(key)
    for number, line in enumerate(lines):
        log.append(line, number, 1, epoch)
        log.sync()
    return log, epoch, lease


def folder(store, key=KEY):
    return store.names.get(key).name.folder


def expire(store, key=KEY):
    """As if the holder's time had run out."""
    import msgspec

    place = folder(store, key)
    found = held(store.objects, place)[0]
    store.objects.put(f"{place}/lease", msgspec.json.encode({"epoch": found.epoch}))


def content(store, key=KEY):
    return b"".join(store.log(key).read())


def test_what_a_writer_knew_is_forgotten_with_its_lease(stores):
    """A process that writes one session after the other does not remember their objects."""
    one, _ = stores
    for number in range(3):
        key = f"sessions/{number}"
        _, _, lease = written(one, b"1\n", key=key)
        assert list(one._writing) == [key]
        lease.release()
    assert one._writing == {}
    assert content(one, "sessions/2") == b"1\n"


def just_before(store, call, needle, action):
    """Do something once, right before a call for such a path leaves this store."""
    real = getattr(store.objects, call)
    done = []

    def hooked(*args):
        if not done and any(needle in str(arg) for arg in args[:1]):
            done.append(1)
            action()
        return real(*args)

    setattr(store.objects, call, hooked)
    return done


@pytest.mark.parametrize("how", ["cut", "replace"])
@pytest.mark.parametrize(("call", "needle"), [("swap", "/head"), ("put", "/log/00000001")])
def test_a_rewrite_that_lost_its_lease_midway_changes_nothing(stores, how, call, needle):
    """Another one took over while the new generation was being written: what it stored stays."""
    one, two = stores
    log, epoch, _ = written(one, b"1\n", b"2\n")
    new = []

    def take_over():
        expire(two)
        new.append(written(two, key=KEY))
        new[0][0].append(b"3\n", 2, 1, new[0][1])
        new[0][0].sync()

    done = just_before(one, call, needle, take_over)
    with pytest.raises(Fenced):
        log.cut(2, epoch) if how == "cut" else log.replace([b"x\n"], epoch)
    assert done
    assert content(two) == b"1\n2\n3\n"
    new[0][0].append(b"4\n", 3, 1, new[0][1])
    new[0][0].sync()
    assert content(one) == b"1\n2\n3\n4\n"


def test_two_rewrites_at_once_do_not_mix(stores):
    """A late writer of a generation writes into its own place, not into that of its successor."""
    one, two = stores
    log, epoch, _ = written(one, b"1\n")

    def take_over():
        expire(two)
        other, later, _ = written(two)
        other.replace([b"new\n"], later)

    done = just_before(one, "put", "/log/00000001", take_over)
    with pytest.raises(Fenced):
        log.replace([b"old\n"], epoch)
    assert done
    assert content(two) == b"new\n"


def test_whoever_is_late_with_its_fence_does_not_fence_off_its_successor(stores):
    """A lease that was lost again before its fence was put is not a lease."""
    one, two = stores
    _, _, lease = written(one, b"1\n")
    lease.release()
    new = []

    def take_over():
        expire(two)
        new.extend(written(two))
        new[0].append(b"2\n", 1, 1, new[1])
        new[0].sync()

    late = one.lease(KEY)
    done = just_before(one, "create", "/log/", take_over)
    with pytest.raises(Locked):
        late.acquire("late", 60_000)
    assert done
    new[0].append(b"3\n", 2, 1, new[1])
    new[0].sync()
    assert content(one) == b"1\n2\n3\n"


def test_an_append_on_its_way_while_the_lease_is_taken_is_stored_or_fenced(stores):
    """Right before its object is made another one fences: nothing of it is acknowledged or read."""
    one, two = stores
    log, epoch, _ = written(one, b"1\n")

    def take_over():
        expire(two)
        other, later, _ = written(two)
        other.append(b"2\n", 1, 1, later)
        other.sync()

    done = just_before(one, "create", "/log/", take_over)
    log.append(b"late\n", 1, 1, epoch)
    with pytest.raises(Fenced):
        log.sync()
    assert done
    assert log.unsaved() == b"late\n"
    assert content(two) == b"1\n2\n"


def test_a_writer_that_begins_just_before_its_key_is_cleared_away_is_not_lost(stores):
    """A move onto a key with documents only: whoever began to write there meanwhile keeps it."""
    one, two = stores
    written(one, b"1\n")[2].release()
    one.documents("sessions/b").put("note", b"x")

    def begin():
        written(two, b"mine\n", key="sessions/b")[2].release()

    done = just_before(one, "create", "/lease", begin)
    with pytest.raises((Conflict, Locked)):
        one.move(KEY, "sessions/b")
    assert done
    assert content(two, "sessions/b") == b"mine\n"
    assert content(two) == b"1\n"


def test_the_rest_of_a_move_never_takes_a_key_that_was_made_anew(stores):
    """Cleaning up after a move compares first: a session under the old name stays."""
    one, two = stores
    written(one, b"1\n")[2].release()

    class Crash(Exception):
        pass

    real = one.names.swap
    one.names.swap = lambda key, etag, name: (
        real(key, etag, name) if name is not None else (_ for _ in ()).throw(Crash())
    )
    with pytest.raises(Crash):
        one.move(KEY, "trash/a")
    one.names.swap = real

    def anew():
        written(two, b"new\n")[2].release()

    done = just_before(one, "swap", f"names/{KEY}", anew)
    assert one.names.get(KEY) is None  # it was about to clean up
    assert done
    assert content(one) == b"new\n"
    assert content(two, "trash/a") == b"1\n"


def test_a_drop_that_a_crash_ended_is_finished_by_the_next(stores):
    """Nothing of it is seen, and no byte of it is left after dropping it again."""
    one, two = stores
    lease = written(one, b"secret\n")[2]
    one.documents(KEY).put("note", b"secret")
    lease.release()
    place = folder(one)

    def crash(_folder):
        raise KeyboardInterrupt

    one._remove = crash
    with pytest.raises(KeyboardInterrupt):
        one.drop(KEY)
    assert not two.exists(KEY)
    assert two.documents(KEY).names() == []
    assert list(two.entries()) == []
    two.drop(KEY)
    left = [one.path for one in two.objects.list(f"{place}/") if one.size > HEAD_BYTES]
    assert {path.rpartition("/")[2] for path in left} <= {"head", "lease"}
    with pytest.raises(NotFound):
        two.drop(KEY)
    assert content(two) == b""
    written(two, b"again\n")
    assert content(two) == b"again\n"


def test_packing_that_comes_too_late_leaves_nothing_of_a_key_that_was_dropped(stores):
    """Whoever packs while the key is dropped takes its pack away again."""
    one, two = stores
    _, _, lease = written(one, *(b"secret %d\n" % n for n in range(3)))
    lease.release()
    place = folder(one)
    pieces = LogObjects(one.objects, place)
    done = just_before(one, "put", "/pack/", lambda: two.drop(KEY))
    with pytest.raises(HoldfastError):
        pieces.compact(archive=True)
    assert done
    assert [one.path for one in two.objects.list(f"{place}/pack/")] == []


def test_small_objects_are_packed_while_readers_read(stores):
    """Every reader sees the beginning of the log, whole and in order, at every moment."""
    one, two = stores
    log, epoch, lease = written(one)
    lines = [b"line %d\n" % number for number in range(150)]
    whole = b"".join(lines)
    wrong, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            found = content(two)
            if not whole.startswith(found):
                wrong.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    for number, line in enumerate(lines):
        log.append(line, number, 1, epoch)
        log.sync()
    lease.release()
    one.archive(KEY)
    one.unarchive(KEY)
    stop.set()
    reader.join(120)
    assert wrong == []
    assert content(two) == whole
    objects = [one for one in two.objects.list(f"{folder(two)}/") if one.size > HEAD_BYTES]
    assert len(objects) < 10


def test_packing_again_and_again_keeps_everything(stores):
    """Archived, gone on with, and archived again: the same bytes, whatever was packed before."""
    one, two = stores
    whole = b""
    for turn in range(4):
        lease = one.lease(KEY)
        epoch = lease.acquire("me", 60_000)
        log = one.log(KEY)
        for number in range(40):
            line = b"%d %d\n" % (turn, number)
            log.append(line, number, 1, epoch)
            log.sync()
            whole += line
        lease.release()
        if turn % 2:
            one.archive(KEY)
            one.archive(KEY)
        assert content(two) == whole
    one.unarchive(KEY)
    one.archive(KEY)
    assert content(two) == whole


def test_packs_of_two_who_pack_at_once_are_read_once(stores):
    """A late packer puts its packs beside those of another one: nothing is there twice."""
    one, two = stores
    lines = [b"%d\n" % number for number in range(130)]
    for half in (lines[:70], lines[70:]):
        _, _, lease = written(one, *half)
        lease.release()
    pieces = LogObjects(one.objects, folder(one))
    done = just_before(one, "put", "/pack/", lambda: two.archive(KEY))
    with suppress(HoldfastError):  # what it wanted to pack may have gone meanwhile
        pieces.compact(archive=True)
    assert done
    assert content(two) == b"".join(lines)


@pytest.fixture
def losing(monkeypatch):
    """Lose the answer to one write, the n-th from now on: it is stored, and nobody says so."""
    import obstore
    from obstore.exceptions import GenericError

    state = {"left": 0}
    real = obstore.put

    def put(*args, **options):
        result = real(*args, **options)
        state["left"] -= 1
        if state["left"] == 0:
            raise GenericError("connection reset")
        return result

    monkeypatch.setattr(obstore, "put", put)
    return lambda number: state.update(left=number)


@pytest.mark.parametrize("number", range(1, 24))
def test_an_answer_that_is_lost_changes_nothing(stores, losing, number):
    """Whichever write it was: found in its place and not done twice, and nobody is told wrong."""
    one, two = stores
    one.check()
    losing(number)
    log, epoch, lease = written(one, b"1\n", b"2\n")
    etag = one.documents(KEY).put("note", b"x", if_match="")
    one.documents(KEY).put("note", b"y", if_match=etag)
    log.cut(2, epoch)
    log.append(b"3\n", 1, 1, epoch)
    log.sync()
    lease.release()
    one.branch(KEY, "sessions/b", 2)
    one.move(KEY, "trash/a")
    one.drop("sessions/b")
    losing(0)
    assert content(two, "trash/a") == b"1\n3\n"
    assert two.documents("trash/a").get("note")[0] == b"y"
    assert [entry.key for entry in two.entries("trash/")] == ["trash/a"]
    assert list(two.entries()) == []


def test_one_request_for_an_append_and_few_for_a_list(stores, monkeypatch):
    """An append lists nothing, and a second look at many keys asks for none of them one by one."""
    one, two = stores
    log, epoch, _ = written(one, b"1\n")
    asked = []
    for call in ("get", "put", "create", "swap", "list", "delete"):
        for store in stores:
            real = getattr(store.objects, call)
            monkeypatch.setattr(store.objects, call, lambda *a, r=real, c=call: asked.append(c) or r(*a))
    log.append(b"2\n", 1, 1, epoch)
    log.sync()
    assert asked == ["create"]
    for number in range(40):
        written(one, b"x\n", key=f"sessions/n{number}")[2].release()
    assert len(list(two.entries())) == 41
    asked.clear()
    assert len(list(two.entries())) == 41
    assert sorted(asked) == ["list", "list"]


def test_what_is_not_ours_is_passed_over(stores):
    """Foreign objects among the names and in a log's folder are in nobody's way."""
    one, two = stores
    written(one, b"1\n")
    put = one.objects.put
    for name in ("sessions/a b", "sessions/deep/er", "sessions/broken", "sessions/wrong"):
        put(f"names/{name}", b'{"id": "../../x"}' if "wrong" in name else b"not json")
    put(f"{folder(one)}/log/00000000/notes.txt", b"hello, this is no object of a log")
    put(f"{folder(one)}/pack/00000000/0-1-99999999999-z", b"bomb")
    assert [entry.key for entry in two.entries()] == [KEY]
    assert content(two) == b"1\n"
    for key in ("sessions/broken", "sessions/wrong"):
        with pytest.raises(Damaged):
            two.exists(key)


@pytest.mark.parametrize("name", ["head", "lease", "log/00000000/000000000000"])
def test_an_object_that_cannot_be_read_is_told(stores, name):
    """Damaged, and what another session sends in the same batch is stored."""
    one, two = stores
    written(one, b"1\n")[2].release()
    one.objects.delete(f"{folder(one)}/log/00000000/000000000001")
    one.objects.put(f"{folder(one)}/{name}", b'{"epoch": "many"')
    with pytest.raises(HoldfastError) as caught:
        two.lease(KEY).acquire("me", 1000)
    assert isinstance(caught.value, Damaged)
    log = two.log(KEY)
    log._end = 0
    log.append(b"2\n", 0, 1, 5)
    written(two, b"fine\n", key="sessions/b")
    with pytest.raises((Unavailable, Fenced)):
        log.sync()
    assert content(one, "sessions/b") == b"fine\n"


def test_many_leases_are_renewed_together_and_a_lost_one_is_told(stores):
    """Renewing says which are lost, and an object that cannot be read loses none of the others."""
    one, two = stores
    epochs = {f"sessions/{n}": written(one, key=f"sessions/{n}")[1] for n in range(6)}
    expire(two, "sessions/2")
    written(two, key="sessions/2")
    one.objects.put(f"{folder(one, 'sessions/4')}/lease", b"?")
    lost = one._renew_all({key: (epoch, 60_000) for key, epoch in epochs.items()})
    assert lost == {"sessions/2"}


def test_an_endpoint_that_is_down_is_told_soon():
    """Nothing listens there: an error, whatever patience there is for servers that are known."""
    url = "s3://b/p?endpoint=http://127.0.0.1:1&region=x&access_key_id=a&secret_access_key=s3cr3t"
    with closing(ObjectStore(f"{url}&retry_s=3000")) as store:
        with pytest.raises(Unavailable) as caught:
            store.check()
        assert "s3cr3t" not in repr(caught.value) + str(caught.value.fields)


def test_a_bucket_that_is_not_there_is_told(moto_server):
    """It is said so, and not taken for a server that ignores preconditions."""
    url = moto_server.url(uuid4().hex)  # the other one says that it is forbidden
    with closing(ObjectStore(url.replace("s3://sessions", "s3://nothing"))) as store:
        with pytest.raises(Unavailable, match="no such bucket"):
            store.check()
        with pytest.raises(Unavailable, match="no such bucket"):
            list(store.entries())


@pytest.mark.parametrize("status", [401, 403])
def test_wrong_keys_are_told_at_once(status):
    """Forbidden, not tried again, and without the secret."""

    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = "region=x&access_key_id=a&secret_access_key=s3cr3t&retry_s=3000"
    try:
        with closing(ObjectStore(f"s3://b/p?endpoint=http://127.0.0.1:{server.server_port}&{options}")) as store:
            with pytest.raises(Forbidden) as caught:
                store.check()
            assert "s3cr3t" not in repr(caught.value) + str(caught.value.fields)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "url",
    [
        "s3:///prefix?secret_access_key=s3cr3t",
        "s3://b/p?secret_access_key=s3cr3t&colour=red",
        "s3://b/p?secret_access_key=s3cr3t&retry_s=soon",
    ],
)
def test_wrong_addresses_are_told_without_their_secrets(url):
    """What is wrong is named; what is secret is not."""
    with pytest.raises(UsageError) as caught:
        open_store(url)
    assert "s3cr3t" not in repr(caught.value) + caught.value.remedy


@pytest.mark.parametrize("url", ["gs://bucket/prefix", "az://container/prefix"])
def test_other_clouds_by_their_addresses(url, monkeypatch):
    """Such a store is made and says where it is; that is as far as it can be tried here."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "someone")
    with closing(open_store(url)) as store:
        assert store.location(KEY) == f"{url}#{KEY}"


def test_buckets_of_two_servers_have_catalogues_of_their_own(monkeypatch, tmp_path):
    """The same bucket and prefix on another server is another store; other keys are no other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    places = []
    for options in ("endpoint=http://a:1", "endpoint=http://b:1", "endpoint=http://a:1&region=x"):
        with closing(ObjectStore(f"s3://bucket/x?{options}")) as store:
            places.append(store.catalog_place())
    assert places[0] != places[1]
    assert places[0] == places[2]


def test_a_forked_child_is_told_that_it_cannot_use_a_bucket(url):
    """The library behind would wait for ever there: an error says so at once."""
    program = f"""
import os
from holdfast.errors import UsageError
from holdfast.storage.s3.store import ObjectStore
store = ObjectStore({url!r})
store.check()
pid = os.fork()
if pid == 0:
    try:
        store.exists("sessions/a")
    except UsageError:
        os._exit(0)
    os._exit(3)
_, code = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(code) == 0, code
assert not store.exists("sessions/a")
store.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_interleavings_hold_on_a_real_server(seaweed_server):
    """Two writers, a hand-over, packing, a move and a drop on a server that keeps its objects."""
    url = seaweed_server.url(uuid4().hex)
    with closing(ObjectStore(url)) as one, closing(ObjectStore(url)) as two:
        log, epoch, _ = written(one, *(b"%d\n" % n for n in range(70)))
        expire(two)
        other, later, lease = written(two)
        log.append(b"late\n", 70, 1, epoch)
        with pytest.raises(Fenced):
            log.sync()
        other.append(b"70\n", 70, 1, later)
        other.sync()
        other.cut(len(content(two)) - 3, later)
        lease.release()
        whole = b"".join(b"%d\n" % n for n in range(70))
        assert content(one) == whole
        one.archive(KEY)
        one.move(KEY, "trash/a")
        assert content(two, "trash/a") == whole
        two.drop("trash/a")
        assert not one.exists("trash/a")
        assert list(one.entries("trash/")) == []
