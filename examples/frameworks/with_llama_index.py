"""LlamaIndex with a chat store that stays: run it twice, the second run knows the first."""

from __future__ import annotations

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer

from holdfast.integrations.llama_index import HoldfastChatStore


def main() -> None:
    """One turn of a conversation."""
    store = HoldfastChatStore()
    memory = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="trip-planner")
    engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
    engine.chat("Plan a trip")
    print(f"The chat has {len(store.get_messages('trip-planner'))} messages.")


if __name__ == "__main__":
    main()
