"""The OpenAPI description, made of the same rows as the server."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.apps.gate.responses import PROBLEM
from holdfast.apps.http._call import EVENT_STREAM, JSON, Endpoint
from holdfast.apps.http._requests import Id
from holdfast.apps.http._socket import EVENTS, TYPES, Input
from holdfast.library.answers.turns import TurnAnswer
from holdfast.model import VERSION

INPUT = "/input"  # where the WebSocket is


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error as described in RFC 9457, with a stable code and a remedy."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    remedy: str = ""


def describe(endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    """Return the whole description as JSON values."""
    types = _types(endpoints)
    # All at once, so that a type that several operations share is described once.
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        row = paths.setdefault(endpoint.path, {})
        row[endpoint.method.lower()] = _operation(endpoint, schema_of, components)
    paths[INPUT] = {"get": _input(schema_of)}
    components["Input"]["properties"]["type"]["enum"] = list(TYPES)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": VERSION,
            "summary": "Durable sessions for AI agents.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _types(endpoints: tuple[Endpoint, ...]) -> list[Any]:
    spoken = (Problem, Id, TurnAnswer, Input, *EVENTS.values())
    found: dict[str, Any] = {repr(kind): kind for kind in spoken}
    for endpoint in endpoints:
        for kind in (endpoint.query, endpoint.body, endpoint.answer):
            if kind is not None:
                found[repr(kind)] = kind
    return list(found.values())


def _operation(endpoint: Endpoint, schema_of: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": _parameters(endpoint, schema_of, components),
        "responses": _responses(endpoint, schema_of),
    }
    if endpoint.scope is not None:
        told["security"] = [{"token": []}]
        told["description"] = f"Needs the scope {endpoint.scope}."
    content = {}
    if endpoint.body is not None:
        content = {JSON: {"schema": schema_of[repr(endpoint.body)]}}
    elif endpoint.takes_bytes:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return told | ({"requestBody": {"required": True, "content": content}} if content else {})


def _input(schema_of: dict[str, Any]) -> dict[str, Any]:
    """Return the WebSocket. OpenAPI has no words for messages; ``x-websocket`` has their schemas."""
    session_id = {"name": "session_id", "in": "query", "required": False, "schema": schema_of[repr(Id)]}
    event = {"type": "string", "enum": list(EVENTS)}
    payloads = [schema_of[name] for name in dict.fromkeys(map(repr, EVENTS.values()))]
    told = {"event": event, "payload": {"anyOf": payloads}}
    refused = {"description": "A problem.", "content": _problem_content(schema_of)}
    return {
        "operationId": "get_input",
        "summary": "A WebSocket: one session, a new one or that of session_id.",
        "description": "Needs the scope read; what is recorded or asked needs write.",
        "parameters": [session_id],
        "security": [{"token": []}],
        "responses": {
            "101": {"description": "Each message is a text of JSON."},
            **dict.fromkeys(("400", "401", "403", "404", "429", "503"), refused),
        },
        "x-websocket": {
            "subprotocols": ["holdfast", "bearer.TOKEN"],
            "from-client": schema_of[repr(Input)],
            "from-server": {"type": "object", "properties": told, "required": list(told)},
        },
    }


def _parameters(endpoint: Endpoint, schema_of: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    call = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[A-Za-z0-9._-]+$"}
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": schema_of[repr(Id)] if name == "id" else call}
        for name in re.findall(r"\{(\w+)\}", endpoint.path)
    ]
    shape = components[schema_of[repr(endpoint.query)]["$ref"].rpartition("/")[2]]
    for name, schema in shape["properties"].items():
        required = name in shape.get("required", ())
        found.append({"name": name, "in": "query", "required": required, "schema": _plain(schema)})
    if endpoint.keyed:
        key = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
        found.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": key})
    if endpoint.media == EVENT_STREAM:
        last = {"type": "string", "pattern": "^[0-9]{1,15}$"}
        found.append({"name": "Last-Event-ID", "in": "header", "required": False, "schema": last})
    return found


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null, since parameters are omitted instead."""
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def _responses(endpoint: Endpoint, schema_of: dict[str, Any]) -> dict[str, Any]:
    fine: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.status != 204:
        schema = schema_of[repr(endpoint.answer)] if endpoint.media == JSON else {}
        fine["content"] = {endpoint.media: {"schema": schema}}
    if endpoint.answer is TurnAnswer:
        fine["content"][EVENT_STREAM] = {"schema": {}}
    problem = _problem_content(schema_of)
    statuses = {"400", "429", "503"} | ({"401", "403"} if endpoint.scope else set())
    if (
        "{id}" in endpoint.path
        or endpoint.scope == "write"
        or endpoint.body is not None
        or endpoint.query.__name__ in ("Search", "WaitingAsked")
    ):
        statuses |= {"404", "409", "413", "422"}
    if endpoint.body is not None or endpoint.takes_bytes:
        statuses |= {"408"}
    if endpoint.body is not None:
        statuses |= {"415"}
    if endpoint.answer is TurnAnswer:
        statuses |= {"410", "501", "502"}
    refused = {status: {"description": "A problem.", "content": problem} for status in sorted(statuses)}
    return {str(endpoint.status): fine, **refused}


def _problem_content(schema_of: dict[str, Any]) -> dict[str, Any]:
    return {PROBLEM: {"schema": schema_of[repr(Problem)]}}
