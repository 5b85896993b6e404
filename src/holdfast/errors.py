"""Every error that Holdfast raises, in one tree, split by who must act.

    HoldfastError
    ├── UsageError                  the caller: the call itself is wrong
    ├── StoreError                  the medium
    │   ├── Fenced                  another writer has taken the session over
    │   ├── Locked                  another writer holds the session
    │   ├── Conflict                a document changed since it was read
    │   ├── StoreFull               no space left
    │   ├── SyncFailed              the medium refused to sync
    │   └── Unavailable             the store cannot be reached or used
    ├── DataError                   the bytes
    │   ├── NotFound                no such session, document or event
    │   ├── Damaged                 recorded bytes are not what was written
    │   ├── TooNew                  written by a newer major format
    │   ├── TooLarge                over a limit
    │   ├── InvalidId               an id that the grammar refuses
    │   └── InvalidData             a value that cannot be recorded faithfully
    ├── SecurityError
    │   ├── KeyMissing              a sealed session without its key
    │   ├── Tampered                sealed bytes that do not authenticate
    │   ├── SecretFound             a secret in what was to be recorded, with redaction "block"
    │   └── Forbidden               an action or a place that is not allowed
    ├── StepError                   a durable step
    │   ├── OutcomeUnknown          it began, and nobody knows whether it took effect
    │   ├── StepFailed              it failed when it ran, and is not run again
    │   └── ResultNotStored         it is done, and its result could not be recorded
    └── AgentError                  the agent or its model
        ├── AgentNoLoadSupport      an agent that cannot load sessions
        ├── AgentTypeMismatch       the stored agent is of another type
        ├── ModelFailed             the model could not be asked, or gave no answer
        ├── TooManyIterations       the agent went on without coming to an end
        └── ResumeTokenError        a suspended session was not resumed
            ├── ResumeTokenInvalid  no such token was ever given out
            ├── ResumeTokenExpired  it came too late
            └── ResumeTokenUsed     it was used before, or the session went on without it

Each class has a stable ``code``, a ``remedy`` in one sentence, and fields as attributes; ``status``
is what HTTP answers with, ``exit`` the exit code of the command. A class without them has those of
its parent. The first line of a class's docstring is its message when none is given. Where a builtin
says the same thing, the class is one of those too, so ``except KeyError`` keeps working.
"""

from __future__ import annotations

# Loading `typing` takes longer than all of this module, which everything loads.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

__all__ = ["AgentError", "AgentNoLoadSupport", "AgentTypeMismatch", "Conflict", "Damaged", "DataError", "Fenced"]
__all__ += ["Forbidden", "HoldfastError", "InvalidData", "InvalidId", "KeyMissing", "Locked", "ModelFailed"]
__all__ += ["NotFound", "OutcomeUnknown", "ResultNotStored", "ResumeTokenError", "ResumeTokenExpired"]
__all__ += ["ResumeTokenInvalid", "ResumeTokenUsed", "SecretFound", "SecurityError", "StepError", "StepFailed"]
__all__ += ["StoreError", "StoreFull", "SyncFailed", "Tampered", "TooLarge", "TooManyIterations", "TooNew"]
__all__ += ["Unavailable", "UsageError"]

# OSError has these itself, so that __getattr__ is never asked for them.
_OS_FIELDS = frozenset({"errno", "filename", "filename2", "strerror"})


class HoldfastError(Exception):
    """Something went wrong in Holdfast."""

    code: ClassVar[str] = "holdfast_error"
    status: ClassVar[int] = 500
    exit: ClassVar[int] = 1
    remedy: str = "Read the message; it names what to change."

    def __init__(self, message: str | None = None, *, remedy: str | None = None, **fields: Any) -> None:
        self.message = message or (type(self).__doc__ or "").strip().partition("\n")[0].rstrip(".")
        super().__init__(self.message)
        if remedy is not None:
            self.remedy = remedy
        self.add_note(self.remedy)  # a traceback shows it, and so does a notebook
        self.fields = {name: value for name, value in fields.items() if value is not None}
        for name in _OS_FIELDS.intersection(self.fields):
            if isinstance(self, OSError):
                setattr(self, name, self.fields[name])

    def __getattr__(self, name: str) -> Any:
        """Fields read as attributes; one that was not given reads as None."""
        if name.startswith("_") or name in ("fields", "message"):
            raise AttributeError(name)
        return self.__dict__.get("fields", {}).get(name)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.remedy, self.fields)


def _rebuild(kind: type[HoldfastError], message: str, remedy: str, fields: dict[str, Any]) -> HoldfastError:
    return kind(message, remedy=remedy, **fields)


class UsageError(HoldfastError, ValueError):
    """The call is wrong as written."""

    code, status, exit = "usage", 400, 2
    remedy = "Correct the arguments and call it again."


class StoreError(HoldfastError, OSError):
    """The store could not do what was asked."""

    code, status = "store", 503
    remedy = "Check the store with `holdfast doctor`."


class Fenced(StoreError):
    """Another writer has taken this session over; this one can no longer write."""

    code, status, exit = "fenced", 409, 4
    remedy = "Open the session again; whether the last unacknowledged append arrived is unknown."


class Locked(StoreError, BlockingIOError):
    """Another process has this session open for writing."""

    code, status, exit = "locked", 409, 4
    remedy = "Wait for it with wait_ms=…, close it there, or open it here with read_only=True."


class Conflict(StoreError):
    """The document was changed by someone else since it was read."""

    code, status = "conflict", 409
    remedy = "Read it again, merge, and put it with the new etag."


class StoreFull(StoreError):
    """The store has no space left; nothing that was recorded is lost."""

    code, status = "store_full", 507
    remedy = "Free some space, then try again: a session that was open goes on where it was."


class SyncFailed(StoreError):
    """The medium refused to sync; the session is read-only from here on."""

    code = "sync_failed"
    remedy = "Check the disk, then open the session again; `.unsaved` holds what is in doubt."


class Unavailable(StoreError, ConnectionError):
    """The store cannot be used."""

    code = "unavailable"
    remedy = "Check that the store exists and that you may read and write it."


class DataError(HoldfastError):
    """The data is not as it should be."""

    code, status = "data", 409
    remedy = "Check the data with `holdfast verify`."


class NotFound(DataError, KeyError):
    """There is no such session."""

    code, status, exit = "not_found", 404, 3
    remedy = "See `holdfast list` for the sessions there are."


class Damaged(DataError, ValueError):
    """Recorded bytes are not what was written."""

    code, exit = "damaged", 4
    remedy = "See what is whole with `holdfast verify`, then run `holdfast repair`."


class TooNew(DataError, ValueError):
    """The session was written by a newer major version of Holdfast; it was left untouched."""

    code, exit = "too_new", 4
    remedy = "Install a newer Holdfast to open it."


class TooLarge(DataError, ValueError):
    """The data is over a limit; nothing was written."""

    code, status = "too_large", 413
    remedy = "Make it smaller, or raise the limit in the configuration."


class InvalidId(DataError, ValueError):
    """The id is not allowed."""

    code, status, exit = "invalid_id", 400, 2
    remedy = "Use 1 to 128 letters, digits, dots, dashes and underscores, beginning with a letter or digit."


class InvalidData(DataError, ValueError):
    """The value cannot be recorded faithfully; nothing was written."""

    code, status = "invalid_data", 422
    remedy = "Convert the value to plain JSON data first."


class SecurityError(HoldfastError):
    """A security rule stopped this."""

    code, status, exit = "security", 403, 4
    remedy = "See the message for the rule."


class KeyMissing(SecurityError):
    """The session is sealed and its key is not here."""

    code = "key_missing"
    remedy = "Name its key: holdfast.open(key=…), HOLDFAST_KEY, or `key` in your config.toml."


class Tampered(SecurityError, ValueError):
    """Sealed bytes do not authenticate."""

    code = "tampered"
    remedy = "Restore the session from a copy that you trust."


class SecretFound(SecurityError, ValueError):
    """What was to be recorded holds a secret."""

    code = "secret_found"
    remedy = 'Take the secret out, or set redaction.mode to "mark" to have it replaced.'


class Forbidden(SecurityError, PermissionError):
    """This place or action is not allowed."""

    code = "forbidden"
    remedy = "See the message for what would make it safe."


class StepError(HoldfastError, RuntimeError):
    """A durable step has no result to give."""

    code, status = "step", 409
    remedy = "Look at the session: it says how far the step came."


class OutcomeUnknown(StepError):
    """The step began and was cut short: whether it took effect is unknown."""

    code = "outcome_unknown"
    remedy = 'Check what it acts on, then call it with unknown="rerun", or with a function that looks its result up.'


class StepFailed(StepError):
    """The step failed when it ran, and is not run again."""

    code = "step_failed"
    remedy = "Give it retry=Retry(attempts=…) with more attempts than it had, or another key."


class ResultNotStored(StepError):
    """The step is done, and its result could not be recorded."""

    code = "result_not_stored"
    remedy = "Return plain JSON data from the function; this step will not run again."


class AgentError(HoldfastError, RuntimeError):
    """The agent or its model failed."""

    code, status = "agent", 502
    remedy = "The session is intact; run the agent again to go on."


class AgentNoLoadSupport(AgentError):
    """The agent cannot load earlier sessions."""

    code = "agent_no_load_support"
    remedy = "Start a new agent session; the transcript can be given to it as context."


class AgentTypeMismatch(AgentError):
    """What is stored belongs to an agent of another type; it was left untouched."""

    code, status = "agent_type_mismatch", 409
    remedy = "Use the agent type that is stored, or another agent id."


class ModelFailed(AgentError):
    """The model could not be asked, or gave no answer."""

    code = "model_failed"
    remedy = "The session is intact; run the agent again when the model can be reached."


class TooManyIterations(AgentError):
    """The agent went on without coming to an end."""

    code = "too_many_iterations"
    remedy = "Look at the last steps of the session; raise max_iterations if they make sense."


class ResumeTokenError(AgentError):
    """The suspended session was not resumed."""

    code, status = "resume_token", 409
    remedy = "Use the token that the suspension gave, once, before it expires."


class ResumeTokenInvalid(ResumeTokenError):
    """The session never gave out this token."""

    code = "resume_token_invalid"
    remedy = "Use the token that the suspension gave, with the session that gave it."


class ResumeTokenExpired(ResumeTokenError):
    """The token has expired."""

    code, status = "resume_token_expired", 410
    remedy = "Go on with a new message: the session is intact."


class ResumeTokenUsed(ResumeTokenError):
    """The token was used before, or the session went on without it."""

    code = "resume_token_used"
    remedy = "Go on with a new message: the session is intact."
