"""Several hosts in the address of a PostgreSQL store: the one that takes writes is found."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from uuid import uuid4

import pytest

import holdfast
from holdfast.errors import Unavailable, UsageError
from holdfast.storage.postgres.link import read_options
from holdfast.storage.postgres.store import PostgresStore

QUICK = {"autosave_ms": 0, "snapshot_ms": 0}


@pytest.fixture(scope="module")
def pair(new_server):
    """A primary and a standby that follows it."""
    with ExitStack() as held:
        primary, standby = (held.enter_context(new_server()) for _ in range(2))
        primary.make()
        primary.start()
        standby.make_standby(primary)
        standby.start()
        yield primary, standby


def _address(*servers, options="", schema=None):
    hosts = ",".join(f"127.0.0.1:{server if isinstance(server, int) else server.port}" for server in servers)
    return f"postgresql://holdfast@{hosts}/postgres?schema={schema or f't{uuid4().hex}'}{options}"


@pytest.mark.parametrize("attributes", ["", "&target_session_attrs=read-write", "&target_session_attrs=primary"])
def test_the_host_that_takes_writes_is_found_wherever_it_stands(pair, attributes):
    """A port that nobody listens on and a standby come first: the session is on the primary."""
    primary, standby = pair
    schema = f"t{uuid4().hex}"
    url = _address(1, standby, primary, options=attributes, schema=schema)
    with holdfast.open(url) as hf:
        with hf.session("s", **QUICK) as s:
            s.user("written")
        assert len(list(hf.list())) == 1  # the catalogue goes the same way
    with holdfast.open(f"{primary.url}?schema={schema}") as hf:
        assert [event.data["content"] for event in hf.events("s", types=["user"])] == ["written"]


def test_no_host_that_suits_is_unavailable_with_a_remedy(pair):
    """Standbys only, and hosts that are down: what to look at is told, and the address's password is not."""
    _, standby = pair
    for servers, said in (((standby, standby), "no host of the address"), ((1, 2), "none of the 2 hosts")):
        store = PostgresStore(_address(*servers, options="&retry_s=1").replace("holdfast@", "holdfast:hush@"))
        with pytest.raises(Unavailable, match=said) as caught:
            store.check()
        assert caught.value.remedy
        assert "hush" not in str(caught.value)
        store.close()


def test_a_host_that_answers_nothing_does_not_keep_the_next_one_from_being_asked(pair):
    """One takes the connection and is silent; the time for it runs out, and the next one is found."""
    primary, _ = pair
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = PostgresStore(_address(silent.getsockname()[1], primary, options="&connect_s=1"))
        store.check()
        store.close()


def test_a_name_that_is_not_known_does_not_end_the_search(pair):
    """A host that was taken away is passed over, too."""
    primary, _ = pair
    store = PostgresStore(_address(primary).replace("@", "@gone.invalid:5432,"))
    store.check()
    store.close()


def test_a_primary_that_only_reads_from_now_on_is_left(pair, new_server):
    """A host that was turned read-only under the session: the next try goes to one that takes writes."""
    primary, _ = pair
    with new_server() as other:
        other.make()
        other.start()
        store = PostgresStore(_address(other, primary))
        store.check()
        other.ask("ALTER SYSTEM SET default_transaction_read_only TO on")
        other.ask("SELECT pg_reload_conf()")
        while other.ask("SHOW default_transaction_read_only") != "on":
            pass
        # The schema is not on the other one: that it is missed there shows that it was asked.
        with pytest.raises(Unavailable, match="does not exist"):
            store.lease("sessions/a").acquire("me", 1000)
        store.close()


def test_each_port_of_an_address_is_checked():
    """A port that is no number is told, whichever host has it; a comma in the password is none of it."""
    with pytest.raises(UsageError, match="port"):
        read_options("postgresql://a:5432,b:x/db")
    found, _ = read_options("postgresql://me:a%2Cb@[::1]:5432,b/db?target_session_attrs=any")
    assert found == [f"postgresql://me:a%2Cb@{host}/db?target_session_attrs=any" for host in ("[::1]:5432", "b")]
    assert read_options("postgresql://a/db")[0] == ["postgresql://a/db"]
