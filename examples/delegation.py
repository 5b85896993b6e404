"""Delegation: one agent gives work to others; all of it stands in one log.

python examples/delegation.py "What is the weather in Lisbon and Porto?"
"""

from __future__ import annotations

import os
import sys

import holdfast
from holdfast.agent import tool

# Without a key the small model answers that is embedded, which is good to try things out.
_USUAL = "anthropic:claude-sonnet-5-5" if "ANTHROPIC_API_KEY" in os.environ else "local"
MODEL = os.environ.get("HOLDFAST_MODEL", _USUAL)


@tool(read_only=True)
def weather(city: str) -> str:
    """The weather.

    Args:
        city: Where.
    """
    return f"{city}: 24 °C, sunny"


def main(prompt: str) -> None:
    """Let the lead answer with the help of the researcher, then show who did what."""
    researcher = holdfast.Agent(MODEL, name="researcher", description="Looks things up.", tools=[weather])
    with (
        holdfast.open() as hf,
        holdfast.Agent(MODEL, agent_id="lead", hf=hf, persistent_session=True, delegates=[researcher]) as lead,
    ):
        result = lead.run_sync(prompt)
        print(result.output)
        assert result.session_id is not None
        for event in hf.events(result.session_id):
            if event.type in ("delegation", "delegation_complete"):
                print(f"{event.type}: {event.data['parent']} -> {event.data['child']}")
            elif event.type in ("agent_start", "agent_complete", "tool_call"):
                print(f"{event.type}: {event.data['agent']}")
        # Only the top-level agent's words are the conversation that goes on.
        print("conversation:", [m["role"] for m in hf.recover(result.session_id).messages])


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "What is the weather in Lisbon?")
