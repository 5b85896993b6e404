"""What the guide to the service tells people to type works, but for port and token as it is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
BLOCK = re.compile(
    r"^<!-- no-run: needs a server; tests/http runs it -->\n```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
TOKEN = "hf_4f1c02a9b377_…"
COMMANDS = re.compile(r"^\$ (.*)$", re.MULTILINE)


@pytest.fixture
def blocks(server, space):
    """The examples of the page that need a server, for this one and this test's space."""
    port, token = server.url.rpartition(":")[2], server.token(space, "write")
    text = PAGE.read_text("utf-8").replace("127.0.0.1:8700", f"127.0.0.1:{port}")
    return [(kind, body.replace(TOKEN, token)) for kind, body in BLOCK.findall(text)], token


def typed(lines, *more):
    """What a shell prints that is given these lines."""
    done = subprocess.run(
        ["bash", "-euc", "\n".join([*lines, *more])],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl, which is not here")
def test_what_is_asked_and_followed_by_curl(blocks):
    """Each request is answered; the turn is streamed; following begins as the page shows."""
    (asking, following), token = [body for kind, body in blocks[0] if kind == "console"], blocks[1]
    printed = typed(COMMANDS.findall(asking))
    assert "urn:holdfast:problem" not in printed
    for words in ('"title":"A trip"', '"seqs":[', '"hits":[{', "event: piece", "event: done"):
        assert words in printed
    assert "hello there" in printed.partition("event: done")[2]
    command = COMMANDS.findall(following)[0]
    shown = typed([f"TOKEN={token}"], f"{{ {command} -s || true; }} | head -n 6")
    for expected in following.splitlines()[1:]:
        begins = expected.partition("…")[0]
        assert any(line.startswith(begins) for line in shown.splitlines()), expected


def test_the_talk_over_a_websocket(blocks, capsys):
    """The program prints the id of its session, and the answer as it comes."""
    [program] = [body for kind, body in blocks[0] if kind == "python"]
    exec(compile(program, str(PAGE), "exec"), {})
    session_id, answer = capsys.readouterr().out.split("\n", 1)
    assert len(session_id) == 26
    assert answer.strip() == "hello there"
