"""Wrong ids and moments over HTTP: one answer for one mistake, wherever it is made."""

from __future__ import annotations

import pytest

WRONG = ["../x", "a..b", "con", "x.", "-x", "", "x" * 129, "a\0b"]


@pytest.mark.parametrize("id", WRONG, ids=ascii)
def test_a_wrong_id_in_a_body_is_invalid_data(client, id):
    """Whether its letters or its form is wrong, and in whichever member it stands."""
    client.post("/v1/sessions", json={"id": "trip"})
    asked = [
        ("/v1/sessions", {"id": id}),
        ("/v1/sessions", {"agent_id": id}),
        ("/v1/sessions/trip/fork", {"new_id": id}),
        ("/v1/sessions/trip/restore", {"at": 0, "new_id": id}),
        ("/v1/sessions/trip/merge", {"other": id}),
        ("/v1/sessions/trip/merge", {"other": "trip", "new_id": id}),
    ]
    for path, body in asked:
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_data"), (path, body)


@pytest.mark.parametrize("id", ["a..b", "con", "x.", "-x", "x" * 129, "a%00b"])
def test_a_wrong_id_in_the_address_is_no_request(client, id):
    """It is refused with 400."""
    assert client.get(f"/v1/sessions/{id}").status_code == 400
    assert client.get(f"/v1/sessions/{id}/state").status_code == 400


def test_an_event_that_is_not_there_is_not_found(client):
    """The answer names the last one; what is newest does not stand in for it."""
    client.post("/v1/sessions", json={"id": "trip"})
    last = client.get("/v1/sessions/trip/events").json()["events"][-1]["seq"]
    for path in ("state", "messages", "export"):
        there = client.get(f"/v1/sessions/trip/{path}", params={"at": last})
        beyond = client.get(f"/v1/sessions/trip/{path}", params={"at": last + 1})
        assert (there.status_code, beyond.status_code) == (200, 404), path
        assert f"the last is {last}" in beyond.json()["detail"]
