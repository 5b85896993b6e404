"""Every number that bounds what is recorded, with the reason for each."""

from __future__ import annotations

import msgspec

from holdfast.errors import UsageError

FORMAT_VERSION = 1
"""The major version of the line format. A log of a higher one is refused and left untouched."""

_KIB = 1024
_MIB = 1024 * _KIB
# Beyond these Python itself gives up: it recurses three frames per level, and refuses to print longer integers.
_MOST = {"depth_max": 250, "integer_digits_max": 4_300, "session_notice_percent": 100}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one store. Each can be set; exceeding one raises a typed error."""

    message_bytes_max: int = _MIB
    """Text of one message: longer text is nearly always a file pasted by mistake."""

    blob_bytes_min: int = 256 * _KIB
    """A payload above this becomes a blob beside the log, so that the log stays fast to read."""

    blob_bytes_max: int = 64 * _MIB
    """One tool result, image or document; it has to fit into memory several times over."""

    session_bytes_max: int = 100 * _MIB
    """One session's log. A notice comes at 80 %."""

    session_notice_percent: int = 80

    sessions_live_max: int = 1000
    """Sessions that are not archived; beyond it the least recently used are archived."""

    snapshots_kept: int = 10
    """Snapshots only make opening fast; more than a few only cost space."""

    snapshot_growth_bytes_min: int = 256 * _KIB
    """A tail shorter than this is folded faster than a snapshot is written."""

    snapshot_growth_factor: int = 4
    """A snapshot is due when the log grew by this many times the state's size."""

    snapshot_compress_bytes_min: int = 64 * _KIB
    """Below this a snapshot stays readable by eye."""

    depth_max: int = 64
    """Nesting of one event's data: parsers of every language must survive it."""

    integer_digits_max: int = 64
    """Python refuses to parse integers of more than 4,300 digits; others stop far earlier."""

    tag_chars_max: int = 200
    key_chars_max: int = 512

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"limit {name} must be a whole number of at least 1, not {value!r}")
            if value > _MOST.get(name, value):
                raise UsageError(f"limit {name} can be {_MOST[name]:,} at most, not {value:,}")
