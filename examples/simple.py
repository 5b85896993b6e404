"""Simple: one argument makes an agent persistent.

Run it twice: the second run knows what was said in the first.

    export ANTHROPIC_API_KEY=…        # or HOLDFAST_MODEL=local for the embedded model
    python examples/simple.py "My name is Alice"
    python examples/simple.py "What is my name?"
"""

from __future__ import annotations

import os
import sys

import holdfast

MODEL = os.environ.get("HOLDFAST_MODEL", "anthropic:claude-sonnet-4-5")


def main(prompt: str) -> None:
    """Answer one prompt on the agent's own session."""
    with holdfast.Agent(MODEL, agent_id="my-assistant", persistent_session=True) as agent:
        result = agent.run_sync(prompt)
        print(result.output)
        print(f"(session {result.session_id}, {len(result.messages)} messages)")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "Hello!")
