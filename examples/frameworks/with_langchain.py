"""LangChain with a history that stays: run it twice, the second run knows the first."""

from __future__ import annotations

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

from holdfast.integrations.langchain import HoldfastChatMessageHistory


def main() -> None:
    """One turn of a conversation."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Done.")]))
    history = HoldfastChatMessageHistory("trip-planner")
    history.add_user_message("Plan a trip")
    answer = model.invoke(history.messages)
    history.add_messages([answer])
    count = sum(isinstance(message, HumanMessage) for message in history.messages)
    print(f"{answer.content} That was prompt {count}.")


if __name__ == "__main__":
    main()
