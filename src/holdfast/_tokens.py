"""Exact token counts without a network, where a vocabulary is installed.

With the ``tokens`` extra, conversations for providers whose vocabulary is public are counted
exactly. For the others there is no exact count offline; callers then get an estimate that says so.
"""

# Loaded late: a vocabulary takes longer to load than most programs run.
from __future__ import annotations

from collections.abc import Callable
from functools import cache

_VOCABULARIES = {"openai": "o200k_base", "openai-responses": "o200k_base", "mistral": "mistral_v3"}


@cache
def token_counter(provider: str) -> Callable[[str], int] | None:
    """Return a function that counts tokens as the provider does; None if that is not possible here."""
    name = _VOCABULARIES.get(provider)
    if name is None:
        return None
    try:
        from splintr import Tokenizer
    except ImportError:
        return None
    # encode() would take text such as "<|endoftext|>" for a command; ordinary text is only text.
    encode = Tokenizer.from_pretrained(name).encode_ordinary
    return lambda text: len(encode(text))
