"""The description is true: schemathesis asks everything it allows, and the pages say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from holdfast.apps.http._openapi import describe
from holdfast.apps.http._operations import ENDPOINTS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"
SCHEMA = schemathesis.openapi.from_dict(describe(ENDPOINTS))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = settings.default.max_examples // 8  # HYPOTHESIS_PROFILE=fuzz asks longer
# What it is asked about really exists, as a rule, unless the answer would never end.
ENDLESS = "/v1/sessions/{id}/follow"


@pytest.fixture(scope="module")
def known(server):
    """Sessions to ask about, and a token for them."""
    token = server.token("described")
    with server.client(token=token) as client:
        for id in ("one", "two"):
            client.post("/v1/sessions", json={"id": id, "title": "A trip", "tags": ["sea"]})
            for role in ("user", "assistant"):
                event = {"type": role, "data": {"role": role, "content": "a lighthouse"}}
                client.post(f"/v1/sessions/{id}/events", json=event)
    return token


@pytest.mark.parametrize("row", ENDPOINTS, ids=lambda row: row.name)
def test_no_request_makes_a_mistake(server, known, row):
    """No server error, and each answer has a status, a type and a shape that was announced."""
    operation = SCHEMA[row.path][row.method]
    ids = ["nowhere"] if row.path == ENDLESS else [None, "one", "two"]

    @settings(max_examples=EXAMPLES, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(), id=st.sampled_from(ids))
    def ask(case, id):
        if id is not None and "id" in (case.path_parameters or {}):
            case.path_parameters["id"] = id
        headers = {"authorization": f"Bearer {known}"}
        case.call_and_validate(base_url=server.url, headers=headers, checks=CHECKS, timeout=120, stream=False)

    ask()


@pytest.mark.parametrize("row", ENDPOINTS, ids=lambda row: row.name)
def test_the_page_has_every_row(row):
    """With its scope, its parameters and the members of its body."""
    import msgspec

    text = PAGE.read_text(encoding="utf-8")
    [line] = [line for line in text.splitlines() if line.startswith(f"| `{row.method} {row.path}` |")]
    _, _, _, scope, query, body, _ = (cell.strip() for cell in line.split("|"))
    assert scope == (row.scope or "none")
    assert re.findall(r"`(\w+)`", query) == [f.name for f in msgspec.structs.fields(row.query)]
    members = [] if row.body is None else [f.name for f in msgspec.structs.fields(row.body)]
    assert re.findall(r"`(\w+)`", body) == members


@pytest.mark.req("S1-29")
def test_the_websocket_is_described():
    """Its messages, both ways, are those of the page; the description is valid as a whole."""
    whole = describe(ENDPOINTS)
    told = whole["paths"]["/input"]["get"]["x-websocket"]
    said = whole["components"]["schemas"][told["from-client"]["$ref"].rpartition("/")[2]]
    page = PAGE.read_text(encoding="utf-8").partition("## The WebSocket")[2]
    for name in said["properties"]["type"]["enum"]:
        assert f'"type": "{name}"' in page
    named = set(re.findall(r"`((?:session|input|agent|server)\.\w+|error)`", page))
    assert named == set(told["from-server"]["properties"]["event"]["enum"])
    fields = set(re.findall(r'"(\w+)":', page)) - {"event", "payload"}
    assert fields - {"event"} <= set(said["properties"])


def test_the_page_invents_nothing():
    """Every request on the page is one of the server's."""
    named = re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(f"{row.method} {row.path}" for row in ENDPOINTS)
