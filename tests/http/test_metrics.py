"""``/metrics``: for who has a token for it, and for nobody else; and what it tells."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.apps.http.tokens import TokenBook, widest_scope
from holdfast.errors import UsageError
from holdfast.observe import CONTENT_TYPE
from holdfast.storage import MemoryStore


def figures(client):
    """What a scrape gives: value by name and labels."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == CONTENT_TYPE
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.fixture
def scraper(server):
    """A client with a token for metrics."""
    with server.client("", "metrics") as found:
        yield found


def test_it_tells_how_the_service_does(server, client, scraper):
    """Requests, what sessions of all spaces do, and how the store is."""
    before = figures(scraper)
    made = client.post("/v1/sessions", json={"title": "zanzibar"}).json()["session_id"]
    event = {"type": "user", "data": {"content": "zanzibar"}}
    assert client.post(f"/v1/sessions/{made}/events", json=event).status_code == 200
    assert client.get("/v1/sessions/nobody").status_code == 404
    server.service._look_again = float("-inf")
    after = figures(scraper)

    def more(name, **labels):
        key = (name, *sorted(labels.items()))
        return after.get(key, 0) - before.get(key, 0)

    asked = "holdfast_http_requests_total"
    assert more(asked, endpoint="post_sessions_id_events", status="200") == 1
    assert more(asked, endpoint="get_sessions_id", status="404") == 1
    assert more("holdfast_http_request_seconds_count", endpoint="post_sessions_id_events") == 1
    assert more("holdfast_events_total") >= 2
    assert more("holdfast_flush_seconds_count") >= 1
    assert more("holdfast_sessions") == 1
    assert after["holdfast_up",] == 1
    text = scraper.get("/metrics").text
    assert "zanzibar" not in text
    assert made not in text


@pytest.mark.parametrize("scope", ["read", "write", "admin"])
def test_other_tokens_do_not_open_it(server, space, scope):
    """It tells of everybody: not even the admin of one space may know that."""
    with server.client(space, scope) as client:
        assert client.get("/metrics").status_code == 403


def test_without_a_token(server, client):
    """It is behind the same gate as everything else."""
    client.headers.pop("authorization")
    assert client.get("/metrics").status_code == 401


def test_its_token_opens_nothing_else(server, scraper):
    """Whoever reads metrics reads no sessions."""
    for path in ("/v1/sessions", "/v1/stats", "/v1/sessions/x/events", "/v1/trash"):
        assert scraper.get(path).status_code == 403, path
    assert scraper.post("/v1/sessions", json={}).status_code == 403


def test_its_token_has_no_space():
    """It is not one of several scopes, and names no space."""
    book = TokenBook(MemoryStore())
    _, token = book.create("", "metrics")
    assert (token.space, token.may("metrics"), token.may("read")) == ("", True, False)
    with pytest.raises(UsageError, match="opens no space"):
        book.create("alice", "metrics")
    with pytest.raises(UsageError, match="nothing else"):
        widest_scope("metrics,read")
    assert widest_scope("metrics") == "metrics"
