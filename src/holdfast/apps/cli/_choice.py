"""Choosing a session: by its id, by the beginning of its id, or the newest."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.render.failures import import_command, strangers_hint
from holdfast.catalog import short_id
from holdfast.errors import InvalidId, NotFound, UsageError
from holdfast.library import Holdfast
from holdfast.model import check_id, fold_id, is_id

NEWEST = "-"
_CUT = "…"  # where a list had no room for the middle of an id
_SHOWN_MAX = 5
_MORE = "Use a longer prefix; see `holdfast list` for the ids."
_LOOKED_AT_MAX = 1_000


def choose(library: Holdfast, given: str) -> str:
    """Return the id of the session that ``given`` means.

    Raises NotFound, with the nearest id if there is one; UsageError if several begin like this;
    InvalidId for what can be no id. Touches nothing.
    """
    if given == NEWEST:
        for newest in library.list(1):
            return newest.session_id
        told, remedy = strangers_hint(library)
        raise NotFound(told or "there are no sessions yet", remedy=remedy or None)
    # A whole id is looked up alone, however many sessions there are and whatever begins so.
    if is_id(given) and library.exists(given):
        return given
    missing = f"no session {given}"
    if _CUT in given:
        return _pick_cut(library, given)
    begin = library.session_ids(given) if given and given.isascii() else []
    try:
        return pick(given, begin or session_ids(library), missing)
    except (NotFound, InvalidId) as error:
        # People know a session by the id that its own tool gave it.
        found = library.foreign.imported(given) if given else []
        if len(found) > 1:
            raise UsageError(
                _several(given, library.short_ids(found).values()), remedy="Use the id it has here."
            ) from None
        if found:
            return found[0]
        if isinstance(error, InvalidId):
            error.remedy = "Give a session id or a unique prefix of one; see `holdfast list`."
        _lead_to_import(library, given, error)
        raise


def _lead_to_import(library: Holdfast, given: str, error: NotFound | InvalidId) -> None:
    """Put the way to a session that another tool has into an error about one that is not here."""
    place = library.foreign.importable(given)
    if place is not None:
        error.remedy = f"{place.tool} has it; bring it in: {import_command(place.path)}"
        return
    told, remedy = strangers_hint(library)
    if told:
        error.remedy = f"{told}. {remedy}"


def choose_deleted(library: Holdfast, given: str) -> str:
    """Return the id of a session in the trash that is meant by what was given."""
    deleted = library.trash.list()
    if given == NEWEST and deleted:
        return deleted[0].session_id
    ids = sorted({one.session_id for one in deleted})
    try:
        return pick(given, ids, f"no session {given} in the trash")
    except (NotFound, InvalidId) as error:
        error.remedy = "See `holdfast list --trash`."
        raise


def session_ids(library: Holdfast) -> list[str]:
    """Return every session's id, newest first, by a look at the store itself."""
    # Not by the catalogue, which may be behind, or be what is being mended.
    found = sorted((-entry.modified, entry.key.rpartition("/")[2]) for entry in library.store.entries())
    return [id for _, id in found]


def pick(given: str, ids: list[str], missing: str) -> str:
    """Return the one of ``ids`` that is ``given``, or begins with it; case does not count."""
    wanted = fold_id(given)
    matches = [id for id in ids if given and fold_id(id).startswith(wanted)]
    # `trip` is meant by `trip`, even where there is a `trip-planner`.
    exact = [id for id in matches if len(id) == len(given)]
    if len(exact or matches) == 1:
        return (exact or matches)[0]
    if matches:
        raise UsageError(_several(given, [short_id(id, matches) for id in matches]), remedy=_MORE)
    check_id(given)
    raise NotFound(f"there is {missing}{suggestion(given, ids)}", session_id=given)


def _pick_cut(library: Holdfast, given: str) -> str:
    """Return the session that a narrow list shows like this: its short id without what is in the middle."""
    begin, _, end = fold_id(given).partition(_CUT)
    short = library.short_ids(id for id in library.session_ids(begin) if end in fold_id(id))
    ids = [id for id, shown in short.items() if fold_id(shown).endswith(end)] or list(short)
    if len(ids) > 1:
        raise UsageError(_several(given, [short[id] for id in ids]), remedy=_MORE)
    if not ids:
        raise NotFound(f"there is no session {given}", session_id=given)
    return ids[0]


def tell_none(app: App, tags: Iterable[str], what: str = "No matching sessions") -> None:
    """Say that nothing matches; of a tag that no session has also what it may have meant."""
    rows = app.library.list(_LOOKED_AT_MAX) if tags else ()
    known = {tag for row in rows for tag in (*row.tags, *row.auto_tags)}
    hints = (suggestion(tag, known) for tag in tags if tag not in known)
    app.err.line(f"{what} in {app.where}{next(filter(None, hints), '.')}")


def _several(given: str, names: Collection[str]) -> str:
    shown = "\n".join(sorted(names)[:_SHOWN_MAX])
    more = len(names) - _SHOWN_MAX
    rest = f"\nand {more:,} more" if more > 0 else ""
    return f"{given} is ambiguous: it matches {len(names):,} sessions:\n{shown}{rest}"
