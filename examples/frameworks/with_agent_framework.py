"""A workflow of the Microsoft Agent Framework whose checkpoints stay.

Run it twice: the second run goes on from the newest checkpoint of the first.
"""

from __future__ import annotations

import asyncio

from agent_framework import Executor, WorkflowBuilder, WorkflowContext, handler

from holdfast.integrations.agent_framework import HoldfastCheckpointStorage


class Step(Executor):
    """Adds its name to what it was given."""

    @handler
    async def go(self, text: str, ctx: WorkflowContext[str]) -> None:
        """One step."""
        print(f"{self.id} after {text}")
        await ctx.send_message(f"{text}, {self.id}")


async def main() -> None:
    """Run the workflow, or the end of it that is left."""
    storage = HoldfastCheckpointStorage()
    ask, plan, book = Step(id="ask"), Step(id="plan"), Step(id="book")
    builder = WorkflowBuilder(start_executor=ask, name="trip", checkpoint_storage=storage)
    workflow = builder.add_edge(ask, plan).add_edge(plan, book).build()
    found = await storage.list_checkpoints(workflow_name="trip")
    halfway = [one for one in found if one.iteration_count == 2]
    if halfway:
        await workflow.run(checkpoint_id=halfway[-1].checkpoint_id)
    else:
        await workflow.run("a wish")


if __name__ == "__main__":
    asyncio.run(main())
