"""Objects of a bucket: the few calls that a store consists of, and the meaning of their errors."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import msgspec

from holdfast.errors import Damaged, Forbidden, HoldfastError, Unavailable, UsageError
from holdfast.storage.disk import forks

T = TypeVar("T")
_first_use: list[int] = []
_OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key", "virtual_hosted")
_BACK_OFF_S = 0.1
_BACK_OFF_MAX_S = 3.0
_FIRST_S = 5.0
_LIST_PAGE = 1000
_REFUSALS = 20
# Every write has a mark of its own in the metadata, and passes on the marks that it replaces: so after a lost answer a
# writer can find out whether its write was done, also if others have written since.
_MARK = "holdfast"
_MARKS = 24


class Stored(NamedTuple):
    """An object, its etag, and when it was written by the server's clock."""

    data: bytes
    etag: str  # the server's etag of this version, and a line with the marks of the last writers
    modified: int

    @property
    def marks(self) -> list[str]:
        """The marks of its writers, as far as they are known, the last one first."""
        return self.etag.partition("\n")[2].split()


class ListedObject(NamedTuple):
    """An object as a list shows it."""

    path: str
    size: int
    modified: int
    etag: str


def open_objects(url: str) -> Objects:
    """Return the bucket of an address, with its options. Raises UsageError for a wrong one."""
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise UsageError(
            "a store in a bucket needs obstore", remedy="Install it with: pip install 'holdfast[s3]'"
        ) from error
    parts = urlsplit(url)
    values = dict(parse_qsl(parts.query, keep_blank_values=True))
    retry_s = values.pop("retry_s", "30")
    if not parts.netloc:
        raise UsageError(f"the address names no bucket; write {parts.scheme}://bucket/prefix")
    if not retry_s.isdecimal():
        raise UsageError(f"retry_s={retry_s[:40]!a} in the address must be a number of seconds")
    unknown = sorted(values.keys() - set(_OPTIONS))
    if unknown:
        raise UsageError(f"{unknown[0]!a} is no option of such an address", remedy=f"Use {', '.join(_OPTIONS)}.")
    kind = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[parts.scheme]
    limits = {"timeout": "30s", "connect_timeout": "5s"}
    options: dict[str, Any] = {**values, "client_options": limits}
    if values.get("endpoint", "").startswith("http://"):
        options["client_options"]["allow_http"] = True
    if "virtual_hosted" in options:
        options["virtual_hosted_style_request"] = options.pop("virtual_hosted") == "true"
    # Retried here, where it is known what a second try may do.
    options["retry_config"] = {"max_retries": 0}
    try:
        bucket = kind(parts.netloc, prefix=parts.path.strip("/") or None, **options)
    except Exception as error:
        raise UsageError(f"{url.partition('?')[0]}: {error}") from error
    return Objects(bucket, int(retry_s))


class Objects:
    """One bucket and a prefix in it."""

    def __init__(self, bucket: Any, retry_s: int) -> None:
        self._bucket = bucket
        self._retry_s = retry_s
        self._reached = False

    def create(self, path: str, data: bytes) -> bool:
        """Store an object that does not exist yet; return False if it exists."""
        return self._conditional(path, data, "")

    def swap(self, path: str, data: bytes, etag: str) -> bool:
        """Replace the version of an object that has this etag; return False if it is another by now.

        For an object that was removed meanwhile some servers answer that it is missing: that is False as well.
        """
        return self._conditional(path, data, etag)

    def _conditional(self, path: str, data: bytes, version: str) -> bool:
        """Write an object over one version only; return whether it was written, also if the answer was lost."""
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        etag, _, before = version.partition("\n")
        mode: Any = {"e_tag": etag} if etag else "create"
        mark = uuid4().hex[:16]
        marks = " ".join([mark, *before.split()][:_MARKS])
        tries = 0
        found: Stored | None = None

        def work() -> bool:
            nonlocal tries
            tries += 1
            # Equal bytes have an equal etag: a second try could undo what came after the first one.
            if tries > 1 and (now := self._get(path)) and mark in now.marks:
                return True
            try:
                put(self._bucket, path, data, mode=mode, attributes={_MARK: marks})
            except (AlreadyExistsError, PreconditionError):
                return False
            except FileNotFoundError:
                if not etag:
                    raise
                return False
            return True

        for _ in range(_REFUSALS):
            if self._tried(work):
                return True
            found = self.get(path)
            if (found.etag.partition("\n")[0] if found else "") != etag:
                break
            # Some servers refuse both of two simultaneous writes.
        return _is_own(found, data, mark, before, lost=tries > 1)

    def put(self, path: str, data: bytes) -> None:
        """Store an object, replacing any existing one."""
        from obstore import put

        marked = {_MARK: uuid4().hex[:16]}
        self._tried(lambda: put(self._bucket, path, data, attributes=marked))

    def get(self, path: str) -> Stored | None:
        """Return an object; None if there is none."""
        return self._tried(lambda: self._get(path))

    def _get(self, path: str) -> Stored | None:
        from obstore import get

        try:
            found = get(self._bucket, path)
            meta, marks = found.meta, found.attributes.get(_MARK, "")
            return Stored(bytes(found.bytes()), f"{meta['e_tag'] or ''}\n{marks}", _ms(meta))
        except FileNotFoundError:
            return None

    def get_value(self, path: str, type: type[T], what: str) -> tuple[T | None, str, int]:
        """Return the value of a JSON object, its etag, and its time; None, "" and 0 for none. Raises Damaged."""
        found = self.get(path)
        if found is None:
            return None, "", 0
        try:
            return msgspec.json.decode(found.data, type=type), found.etag, found.modified
        except msgspec.MsgspecError as error:
            raise Damaged(f"{what} cannot be read: {error}") from error

    def put_value(self, path: str, value: object, etag: str) -> bool:
        """Replace the version of a JSON object that has this etag, or none; return whether it did."""
        data = msgspec.json.encode(value)
        return self.swap(path, data, etag) if etag else self.create(path, data)

    def list(self, prefix: str, after: str | None = None) -> Iterator[ListedObject]:
        """Yield the objects whose path begins with ``prefix``, in order, those after a path only."""
        from obstore import list as list_objects

        def work() -> list[ListedObject]:
            pages = list_objects(self._bucket, prefix, offset=after, chunk_size=_LIST_PAGE)
            return [
                ListedObject(one["path"], one["size"], _ms(one), one["e_tag"] or "") for page in pages for one in page
            ]

        yield from sorted(self._tried(work))

    def delete(self, *paths: str) -> None:
        """Remove objects; missing ones are ignored."""
        from obstore import delete

        def work() -> None:
            with contextlib.suppress(FileNotFoundError):
                delete(self._bucket, list(paths))
                return
            for path in paths:  # where a missing one ends the whole call
                with contextlib.suppress(FileNotFoundError):
                    delete(self._bucket, path)

        if paths:
            self._tried(work)

    def now(self, path: str) -> int:
        """Return the server's time, by an object written for it."""
        from obstore import head

        self.put(path, b"")
        return self._tried(lambda: _ms(head(self._bucket, path)))

    def _tried(self, work: Callable[[], T]) -> T:
        """Retry, with growing pauses, while the server cannot be reached or is overloaded."""
        if not _first_use:
            _first_use.append(forks.count)
        if _first_use[0] != forks.count:
            # The library has threads that a forked child lacks: it would wait for ever.
            raise UsageError(
                "a bucket cannot be used in a forked child of a process that used one",
                remedy="Start the child anew (spawn), or fork before the first use.",
            )
        # For a server that was never reached it is raised soon: the address may be wrong.
        patience = self._retry_s if self._reached else min(self._retry_s, _FIRST_S)
        until = time.monotonic() + patience
        wait = _BACK_OFF_S
        while True:
            try:
                with _failures():
                    result = work()
            except Unavailable as error:
                if error.final or time.monotonic() + wait > until:
                    raise
            else:
                self._reached = True
                return result
            time.sleep(wait * (0.5 + random.random()))  # noqa: S311 - spreads the rush
            wait = min(wait * 2, _BACK_OFF_MAX_S)


def _is_own(found: Stored | None, data: bytes, mark: str, before: str, *, lost: bool) -> bool:
    """Return whether a refused write had been done all the same. Raises Unavailable if that is unknown."""
    marks = found.marks if found else []
    if mark in marks or not lost:
        return mark in marks
    if found and not marks:  # by a program that writes no marks
        return found.data == data
    if marks and (before.split(maxsplit=1)[0] in marks if before else len(marks) < _MARKS):
        return False
    raise Unavailable(
        "the bucket did not say whether a write was done, and others have written since", outcome="unknown"
    )


@contextmanager
def _failures() -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except HoldfastError:
        raise
    except (BaseError, OSError) as error:
        if isinstance(error, FileNotFoundError) or "NoSuchBucket" in str(error):
            raise Unavailable(
                "there is no such bucket", remedy="Make the bucket, or mend its name.", final=True
            ) from error
        said = str(error).partition("\n")[0][:300]
        refused = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
        if refused or isinstance(error, PermissionError):
            raise Forbidden(f"the bucket refuses: {said}", remedy="Check the keys and what they may do.") from error
        raise Unavailable(f"the bucket cannot be used: {said}", outcome="unknown") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # obstore's own, which has no name to import
            raise
        remedy = "Close files or raise the limit of open ones (`ulimit -n`), then try again."
        raise Unavailable(f"the bucket cannot be used: {error}", remedy=remedy, outcome="unknown", final=True) from None


def _ms(meta: Any) -> int:
    return int(meta["last_modified"].timestamp() * 1000)
