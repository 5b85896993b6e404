"""Secrets that pass through the proxy: agent and editor have them, the store has not."""

from __future__ import annotations

import json

import pytest

TOKEN = "gh" + "p_" + "aB3dE5gH" * 4 + "abcd"
VALUE = "zq7-" + "Kd82Lm" * 4


@pytest.mark.req("S0-70", "S0-71")
def test_secrets_pass_and_stay_out_of_the_store(proxy_process, store_place, tmp_path, journal):
    """What is said goes on as it is in both directions; frames and words are kept with marks."""
    editor = proxy_process()
    server = {"name": "x", "command": "/bin/true", "args": [], "env": [{"name": "X_API_KEY", "value": VALUE}]}
    id = editor.call("session/new", cwd=str(tmp_path), mcpServers=[server])["sessionId"]
    editor.prompt(id, f"use {TOKEN} for it")
    editor.end()
    assert TOKEN in json.dumps(journal("session/prompt"))
    heard = [
        frame["params"]["update"]["content"]["text"]
        for frame in editor.seen
        if frame.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk"
    ]
    assert TOKEN in "".join(heard)
    kept = b"".join(one.read_bytes() for one in store_place.rglob("*") if one.is_file())
    for secret in (TOKEN, TOKEN[4:20], TOKEN[-16:], VALUE):
        assert secret.encode() not in kept
    assert b"[secret:github_pat:" in kept
