"""A LangGraph whose thread stays: run it twice, the second run knows the first."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from holdfast.integrations.langgraph import HoldfastSaver


def answer(state: MessagesState) -> dict[str, Any]:
    """Say how many messages there are; a real node asks a model."""
    return {"messages": [AIMessage(f"I see {len(state['messages'])} messages.")]}


def main() -> None:
    """One turn of a conversation."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    graph = builder.compile(checkpointer=HoldfastSaver())
    config: Any = {"configurable": {"thread_id": "trip-planner"}}
    state = graph.invoke({"messages": [("user", "Plan a trip")]}, config)
    print(state["messages"][-1].content)


if __name__ == "__main__":
    main()
