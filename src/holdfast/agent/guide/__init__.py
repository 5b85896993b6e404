"""The guide: answers if there is no model. It is not a language model, and says so.

It shows what a durable session is by being one: it remembers facts, uses real tools, and can be killed in
mid answer. ``_facts`` finds facts and questions in messages, ``_skills`` has the answers, ``_guide`` is the engine.
"""

from __future__ import annotations

from holdfast.agent.guide._guide import Guide, guide_model

__all__ = ["Guide", "guide_model"]
