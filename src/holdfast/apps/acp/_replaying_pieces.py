"""Pieces of one message put together as bytes: nearly all of a session is made of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["PIECES_AT_ONCE", "Pieces", "put_together", "said_since"]

PIECES_AT_ONCE = 256
_HEAD = b'{"content":"'
_NAME = b'"content":"'
_ESCAPED = b'$blob":'


class Pieces(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """What several pieces say together."""

    content: str
    kind: str | None = None
    messageId: str | None = None  # noqa: N815 - the name on the wire


_decode = msgspec.json.Decoder(Pieces).decode
_encode = msgspec.json.Encoder().encode


def put_together(raws: Sequence[bytes]) -> Pieces | None:
    """What the data of these ``delta`` events say as one; None if they are not of one message.

    The end of one piece and the beginning of the next are taken out between them, and what is left
    is decoded once. A quote inside of a text is escaped, so those bytes stand nowhere else.
    """
    try:
        first = _decode(raws[0])
        if len(raws) == 1:
            return first
        end = _end_of(first)
        joined = b"".join(raws)
        if not joined.startswith(_HEAD) or joined.count(end + _HEAD) != len(raws) - 1:
            return None
        joined = joined.replace(end + _HEAD, b"")
        if joined.count(_NAME) != 1 or _ESCAPED in joined:
            return None
        found = _decode(joined)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if (found.kind, found.messageId) == (first.kind, first.messageId) else None


def said_since(raws: Sequence[tuple[int, bytes]], first: int) -> str:
    """What those of these pieces say, each with the number of its event, that came since one.

    They are known to be of one message.
    """
    whole = put_together([raw for seq, raw in raws if seq >= first])
    return "" if whole is None else whole.content


def _end_of(piece: Pieces) -> bytes:
    """The bytes behind its text."""
    kind = b"" if piece.kind is None else b',"kind":' + _encode(piece.kind)
    if piece.messageId is None:
        return b'"%b}' % kind
    return b'"%b,"messageId":%b}' % (kind, _encode(piece.messageId))
