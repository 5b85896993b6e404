"""A tiny MCP server on standard input and output, with the standard library only.

Its arguments are a file that it writes its process id into, and "hang" if it is to answer nothing.
Its tool "look" tells a text and the length of what it was given in TINY_SECRET.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "look", "description": "Look at a text.", "inputSchema": TEXT},
    {"name": "fail", "inputSchema": {"type": "object"}},
    {"name": "break", "inputSchema": {"type": "object"}},
    {"name": "shape", "inputSchema": {"type": "object"}},
    {"name": "look!", "inputSchema": TEXT},
]


def call(name, args):
    """The result of a tool."""
    secret = os.environ.get("TINY_SECRET", "")
    if name == "break":
        os._exit(3)
    if name == "fail":
        return {"content": [{"type": "text", "text": "it is locked"}], "isError": True}
    if name == "shape":
        return {"content": [], "structuredContent": {"sides": 4}}
    picture = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    return {"content": [{"type": "text", "text": f"{args['text']} {len(secret)}"}, picture]}


def answer(frame):
    """What a request is answered with."""
    method, params = frame["method"], frame.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "tiny", "version": "1"},
        }
    if method == "tools/list":
        at = int(params.get("cursor") or 0)
        more = {"nextCursor": str(at + 3)} if at + 3 < len(TOOLS) else {}
        return {"tools": TOOLS[at : at + 3], **more}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return None


def main():
    """Serve until the input ends."""
    place, *wishes = sys.argv[1:]
    Path(place).write_text(str(os.getpid()))
    if "hang" in wishes:
        time.sleep(600)
    for line in sys.stdin:
        frame = json.loads(line)
        if "id" not in frame:
            continue
        result = answer(frame)
        said = {"error": {"code": -32601, "message": "no such method"}}
        said = said if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": frame["id"], **said}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
