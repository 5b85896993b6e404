"""LangGraph, its checkpoints in SQLite."""

from __future__ import annotations

import sys

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from bench.approval.programs.paying import pay_bill

STORE, WHAT = sys.argv[1:]


def answer(state):
    """Stand in for a language model: call the tool, then report its result."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"Result: {last.content}")]}
    return {"messages": [AIMessage("", tool_calls=[{"name": "pay", "args": {"amount": 90}, "id": "call-1"}])]}


# The program
def pay(amount: int) -> str:
    """Pay a bill."""
    if not interrupt({"pay": amount}):
        return "refused"
    return pay_bill(STORE, amount)


builder = StateGraph(MessagesState)
builder.add_node("say", answer)
builder.add_node("tools", ToolNode([pay]))
builder.add_edge(START, "say")
builder.add_conditional_edges("say", tools_condition, {"tools": "tools", END: END})
builder.add_edge("tools", "say")
config = {"configurable": {"thread_id": "bill"}}
given = {"ask": {"messages": [HumanMessage("Pay the bill")]}, "approve": Command(resume=True), "go_on": None}
with SqliteSaver.from_conn_string(f"{STORE}/checkpoints.db") as saver:
    graph = builder.compile(checkpointer=saver)
    state = graph.invoke(given[WHAT], config, durability="sync")
    if WHAT != "ask":
        print(state["messages"][-1].content)
