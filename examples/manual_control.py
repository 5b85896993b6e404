"""Manual control: nothing is stored until `save()`, nothing is loaded until `load()`.

python examples/manual_control.py "Remember the number 7"
"""

from __future__ import annotations

import os
import sys

import holdfast
from holdfast.agent import PersistentSession

# Without a key the small model answers that is embedded, which is good to try things out.
_USUAL = "anthropic:claude-sonnet-5-5" if "ANTHROPIC_API_KEY" in os.environ else "local"
MODEL = os.environ.get("HOLDFAST_MODEL", _USUAL)
MANUAL = PersistentSession(autosave_ms=0, save_on_close=False, load_on_create=False)


def main(prompt: str) -> None:
    """Load what was saved, answer, and save only what is worth it."""
    with holdfast.Agent(MODEL, agent_id="careful", persistent_session=MANUAL) as agent:
        print("loaded" if agent.load() else "nothing was saved before")
        result = agent.run_sync(prompt)
        print(result.output)
        if "forget" in prompt:
            print("left unsaved")  # closing without save() gives it up
        else:
            agent.save()  # on the medium when this returns
            print("saved")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "Hello!")
