"""Objects of a bucket: the few calls that a store is made of, and what their errors mean."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

from holdfast.errors import Forbidden, HoldfastError, Unavailable, UsageError

__all__ = ["Listed", "Objects", "Stored", "open_objects"]

T = TypeVar("T")
_OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key", "virtual_hosted")
_BACK_OFF_S = 0.1
_BACK_OFF_MAX_S = 3.0
_LIST_PAGE = 1000


class Stored(NamedTuple):
    """An object, the mark of this version of it, and when it was written by the server's clock."""

    data: bytes
    etag: str
    modified: int


class Listed(NamedTuple):
    """An object as a list shows it."""

    path: str
    size: int
    modified: int
    etag: str


def open_objects(url: str) -> Objects:
    """The bucket of an address, with its options. Raises UsageError for a wrong one."""
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise UsageError(
            "a store in a bucket needs obstore", remedy="Install holdfast[s3]."
        ) from error
    parts = urlsplit(url)
    values = dict(parse_qsl(parts.query, keep_blank_values=True))
    retry_s = values.pop("retry_s", "30")
    if not parts.netloc:
        raise UsageError(f"{url!a} names no bucket; write {parts.scheme}://bucket/prefix")
    if not retry_s.isdecimal():
        raise UsageError(f"retry_s={retry_s[:40]!a} in the address must be a number of seconds")
    unknown = sorted(values.keys() - set(_OPTIONS))
    if unknown:
        raise UsageError(
            f"{unknown[0]!a} is no option of such an address", remedy=f"Use {', '.join(_OPTIONS)}."
        )
    kind = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[parts.scheme]
    options: dict[str, Any] = {**values, "client_options": {"timeout": "30s"}}
    if values.get("endpoint", "").startswith("http://"):
        options["client_options"]["allow_http"] = True
    if "virtual_hosted" in options:
        options["virtual_hosted_style_request"] = options.pop("virtual_hosted") == "true"
    # Tried again here, where it is known what a second try may do.
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

    def create(self, path: str, data: bytes) -> bool:
        """Store an object that is not there yet; False if there is one.

        After a lost answer the first try may have stored it: compare before believing a False.
        """
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        def work() -> bool:
            try:
                put(self._bucket, path, data, mode="create")
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return False
            return True

        return self._tried(work)

    def swap(self, path: str, data: bytes, etag: str) -> bool:
        """Replace the version of an object that has this etag; False if it is another by now.

        Of an object that went meanwhile some servers say that it is missing: that is lost as well.
        """
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        def work() -> bool:
            try:
                put(self._bucket, path, data, mode={"e_tag": etag})
            except (PreconditionError, AlreadyExistsError, FileNotFoundError):
                return False
            return True

        return self._tried(work)

    def put(self, path: str, data: bytes) -> None:
        """Store an object in the place of whatever is there."""
        from obstore import put

        self._tried(lambda: put(self._bucket, path, data))

    def get(self, path: str) -> Stored | None:
        """An object; None if there is none."""
        from obstore import get

        def work() -> Stored | None:
            try:
                found = get(self._bucket, path)
                meta = found.meta
                return Stored(bytes(found.bytes()), meta["e_tag"] or "", _ms(meta))
            except FileNotFoundError:
                return None

        return self._tried(work)

    def get_part(self, path: str, start: int, stop: int) -> bytes | None:
        """Some bytes of an object; None if it is not there."""
        from obstore import get_range

        def work() -> bytes | None:
            try:
                return bytes(get_range(self._bucket, path, start=start, end=stop))
            except FileNotFoundError:
                return None

        return self._tried(work)

    def list(self, prefix: str, after: str | None = None) -> Iterator[Listed]:
        """The objects whose path begins with ``prefix``, in order, those after a path only."""
        from obstore import list as list_objects

        def work() -> list[Listed]:
            pages = list_objects(self._bucket, prefix, offset=after, chunk_size=_LIST_PAGE)
            return [
                Listed(one["path"], one["size"], _ms(one), one["e_tag"] or "")
                for page in pages
                for one in page
            ]

        yield from sorted(self._tried(work))

    def delete(self, *paths: str) -> None:
        """Remove objects; one that is not there is gone already."""
        from obstore import delete

        def work() -> None:
            for path in paths:
                try:
                    delete(self._bucket, path)
                except FileNotFoundError:
                    continue

        self._tried(work)

    def now(self, path: str) -> int:
        """The server's clock, by an object written for it."""
        from obstore import head

        self.put(path, b"")
        return self._tried(lambda: _ms(head(self._bucket, path)))

    def _tried(self, work: Callable[[], T]) -> T:
        """Once more, with growing pauses, while the server cannot be reached or is overrun."""
        until = time.monotonic() + self._retry_s
        wait = _BACK_OFF_S
        while True:
            try:
                with _failures():
                    return work()
            except Unavailable:
                if time.monotonic() + wait > until:
                    raise
            time.sleep(wait * (0.5 + random.random()))  # noqa: S311 - spreads the rush
            wait = min(wait * 2, _BACK_OFF_MAX_S)


@contextmanager
def _failures() -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except HoldfastError:
        raise
    except (BaseError, OSError) as error:
        said = str(error).partition("\n")[0][:300]
        refused = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
        if refused or isinstance(error, PermissionError):
            raise Forbidden(
                f"the bucket refuses: {said}", remedy="Check the keys and what they may do."
            ) from error
        raise Unavailable(f"the bucket cannot be used: {said}", outcome="unknown") from error


def _ms(meta: Any) -> int:
    return int(meta["last_modified"].timestamp() * 1000)
