"""Errors as programs see them: with a remedy in the traceback."""

from __future__ import annotations

import base64
import subprocess
import sys
import traceback

import pytest

from holdfast.errors import NotFound, UsageError


@pytest.mark.parametrize("error", [NotFound("gone", remedy="Look elsewhere."), UsageError("wrong")])
def test_a_traceback_has_the_remedy(error):
    """Whoever reads a traceback, in a terminal or a notebook, reads what to do."""
    assert error.remedy in "".join(traceback.format_exception(error))


# Runs with the libraries of the base installation only, and says what each statement raises.
_WITHOUT_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        if top not in known:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

known = sys.stdlib_module_names | {
    "_distutils_hack", "backports", "click", "coverage", "holdfast", "markdown_it", "mdurl", "msgspec", "platformdirs",
    "prompt_toolkit", "pygments", "rich", "wcwidth",
}
sys.meta_path.insert(0, Missing())
for line in sys.stdin.read().splitlines():
    try:
        exec(line)
    except Exception as error:
        print(line, error, getattr(error, "remedy", ""), sep=" | ")
    else:
        print(line, "works", sep=" | ")
"""
# A key and a signature of zeros: whole in form, so that a check of them needs the library.
_KEY = base64.b64encode(b"Ed" + bytes(8 + 32)).decode()
_SIGNED = b"\n".join((b"", base64.b64encode(b"ED" + bytes(8 + 64)), b"trusted comment: ", b"AA=="))
_NEEDING = {
    "import holdfast.integrations.adk": "'holdfast[adk]'",
    "import holdfast.integrations.agent_framework": "agent-framework-core",
    "import holdfast.integrations.autogen": "autogen-agentchat",
    "import holdfast.integrations.claude_sdk": "'holdfast[claude-sdk]'",
    "import holdfast.integrations.langchain": "langchain-core",
    "import holdfast.integrations.langgraph": "'holdfast[langgraph]'",
    "import holdfast.integrations.llama_index": "llama-index-core",
    "import holdfast.integrations.pydantic_ai": "'holdfast[agent]'",
    "import holdfast.integrations.strands": "'holdfast[strands]'",
    "from holdfast.integrations.openai_agents import HoldfastSession as s; s('x')": "'holdfast[openai-agents]'",
    "import holdfast.apps.http.server": "'holdfast[web]'",
    "import holdfast.apps.mcp.server": "'holdfast[mcp]'",
    "import holdfast.apps.web.app": "'holdfast[web]'",
    "from holdfast.apps.tui import SessionsApp": "'holdfast[tui]'",
    "from holdfast.observe import OtelObserver": "'holdfast[otel]'",
    "import holdfast; holdfast.Agent('test')": "'holdfast[agent]'",
    "import holdfast; holdfast.open('postgresql://localhost/x')": "'holdfast[postgres]'",
    "import holdfast; holdfast.open('s3://bucket/x')": "'holdfast[s3]'",
    "from holdfast.security import Signing; Signing(bytes(32))": "'holdfast[crypto]'",
    "from holdfast.security._keys import keyring_backend as k; k()": "'holdfast[crypto]'",
    f"from holdfast.security import verify_signature as v; v([], {_SIGNED!r}, {_KEY!r})": "'holdfast[crypto]'",
}


def test_what_an_extra_is_needed_for_names_it():
    """Whatever needs a library that is not installed says which command installs it."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_EXTRAS], input="\n".join(_NEEDING), capture_output=True, text=True, check=True
    )
    answers = dict(zip(_NEEDING, done.stdout.splitlines(), strict=True))
    wrong = {line: told for line, told in answers.items() if f"pip install {_NEEDING[line]}" not in told}
    assert not wrong
