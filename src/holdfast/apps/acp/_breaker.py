"""A circuit breaker: after several failures in a row, a rest before the next attempt."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["FAILURES_MAX", "REST_S", "Breaker"]

FAILURES_MAX = 3
REST_S = 30.0
_PAUSE_S = 0.25


class Breaker:
    """Counts failures in a row. Open: nothing is tried until the rest is over."""

    def __init__(
        self,
        failures_max: int = FAILURES_MAX,
        rest_s: float = REST_S,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures_max = failures_max
        self._rest_s = rest_s
        self._clock = clock
        self._failures = 0
        self._failed_at = 0.0

    @property
    def failures(self) -> int:
        """Failures in a row so far."""
        return self._failures

    @property
    def wait_s(self) -> float:
        """How long nothing is to be tried; 0.0 if an attempt may be made now.

        After the rest one attempt is allowed; if it fails, the rest begins again.
        """
        if self._failures < self._failures_max:
            return 0.0
        return max(0.0, self._failed_at + self._rest_s - self._clock())

    @property
    def pause_s(self) -> float:
        """How long to pause before the next attempt: nothing at first, then twice as long each."""
        return 0.0 if not self._failures else _PAUSE_S * 2 ** (self._failures - 1)

    def failed(self) -> None:
        """An attempt failed."""
        self._failures += 1
        self._failed_at = self._clock()

    def worked(self) -> None:
        """An attempt worked: all is forgotten."""
        self._failures = 0
