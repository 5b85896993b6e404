"""A session store for the Claude Agent SDK: what the SDK mirrors into it, and lists from it.

With the command of the SDK installed: `ClaudeAgentOptions(session_store=HoldfastSessionStore())`.
Here the calls that the SDK makes are made by hand, so that this needs no key.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from holdfast.integrations.claude_sdk import HoldfastSessionStore

KEY: Any = {"project_key": "planner", "session_id": "trip-planner"}


async def main() -> None:
    """Mirror one entry, as the SDK does after each, and read all."""
    store = HoldfastSessionStore()
    said = {"role": "user", "content": "Plan a trip"}
    entry: Any = {"type": "user", "uuid": str(uuid.uuid4()), "message": said}
    await store.append(KEY, [entry])
    entries = await store.load(KEY) or []
    print(f"The transcript has {len(entries)} entries.")


if __name__ == "__main__":
    asyncio.run(main())
