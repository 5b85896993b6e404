"""The guide: who answers where there is no model. It is not a language model, and says so.

It shows what a durable session is by doing it: it keeps what it is told, uses real tools, and can be killed in
mid answer. ``_facts`` reads what people tell, ``_skills`` says what there is to say, ``_guide`` is the engine.
"""

from __future__ import annotations

from holdfast.agent.guide._guide import Guide, guide_model

__all__ = ["Guide", "guide_model"]
