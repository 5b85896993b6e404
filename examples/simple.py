"""Simple: one argument makes an agent persistent.

Run it twice: the second run knows what was said in the first.

    export ANTHROPIC_API_KEY=…        # or HOLDFAST_MODEL=…; without either the embedded model
    python examples/simple.py "My name is Alice"
    python examples/simple.py "What is my name?"
"""

from __future__ import annotations

import os
import sys

import holdfast

# Without a key the small model answers that is embedded, which is good to try things out.
_USUAL = "anthropic:claude-sonnet-5-5" if "ANTHROPIC_API_KEY" in os.environ else "local"
MODEL = os.environ.get("HOLDFAST_MODEL", _USUAL)


def main(prompt: str) -> None:
    """Answer one prompt on the agent's own session."""
    with holdfast.Agent(MODEL, agent_id="my-assistant", persistent_session=True) as agent:
        result = agent.run_sync(prompt)
        print(result.output)
        print(f"(session {result.session_id}, {len(result.messages)} messages)")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "Hello!")
