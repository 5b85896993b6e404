"""Every error that Holdfast raises, in one tree, split by who must act.

    HoldfastError
    ├── UsageError                  the caller: the call itself is wrong
    │   └── QuestionSettled         it has another answer already, or has expired
    ├── StoreError                  the medium
    │   ├── Fenced                  another writer has taken the session over
    │   ├── Locked                  another writer holds the session
    │   ├── Conflict                a document changed since it was read
    │   ├── StoreFull               no space left
    │   ├── SyncFailed              the medium failed to sync
    │   └── Unavailable             the store cannot be reached or used
    ├── DataError                   the bytes
    │   ├── NotFound                no such session, document or event
    │   ├── Damaged                 stored bytes differ from what was written
    │   ├── TooNew                  written by a newer major format
    │   ├── TooLarge                a limit is exceeded
    │   ├── InvalidId               an id that is not allowed
    │   └── InvalidData             a value that cannot be recorded faithfully
    ├── SecurityError
    │   ├── KeyMissing              the key of a sealed session is not available
    │   ├── Tampered                sealed data failed authentication
    │   ├── SecretFound             a secret in data to be recorded, with redaction "block"
    │   └── Forbidden               an action or a place that is not allowed
    ├── StepError                   a durable step
    │   ├── OutcomeUnknown          it began, and may or may not have taken effect
    │   ├── StepFailed              it failed earlier, and is not run again
    │   └── ResultNotStored         it is done, but its result could not be recorded
    └── AgentError                  the agent or its model
        ├── AgentNoLoadSupport      an agent that cannot load sessions
        ├── AgentTypeMismatch       the stored agent is of another type
        ├── ModelFailed             the model could not be reached, or gave no answer
        ├── TooManyIterations       the agent reached its limit of iterations
        └── ResumeTokenError        a suspended session was not resumed
            ├── ResumeTokenInvalid  no such token was ever issued
            ├── ResumeTokenExpired  it came too late
            └── ResumeTokenUsed     it was used before, or the session continued without it

Each class has a stable ``code``, a ``remedy`` in one sentence, and fields as attributes; ``status``
is the HTTP status, ``exit`` the exit code of the command. A class that defines none inherits those of
its parent. The first line of a class's docstring is the default message. If a builtin exception has
the same meaning, the class also derives from it, so ``except KeyError`` keeps working.
"""

from __future__ import annotations

# Loading `typing` takes longer than all of this module, which everything loads.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

__all__ = ["AgentError", "AgentNoLoadSupport", "AgentTypeMismatch", "Conflict", "Damaged", "DataError", "Fenced"]
__all__ += ["Forbidden", "HoldfastError", "InvalidData", "InvalidId", "KeyMissing", "Locked", "ModelFailed"]
__all__ += [
    "NotFound",
    "OutcomeUnknown",
    "QuestionSettled",
    "ResultNotStored",
    "ResumeTokenError",
    "ResumeTokenExpired",
]
__all__ += ["ResumeTokenInvalid", "ResumeTokenUsed", "SecretFound", "SecurityError", "StepError", "StepFailed"]
__all__ += ["StoreError", "StoreFull", "SyncFailed", "Tampered", "TooLarge", "TooManyIterations", "TooNew"]
__all__ += ["Unavailable", "UsageError"]

# OSError has these itself, so that __getattr__ is never asked for them.
_OS_FIELDS = frozenset({"errno", "filename", "filename2", "strerror"})


class HoldfastError(Exception):
    """An operation failed."""

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
        """Return a field, or None if it was not given."""
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
    """The arguments are invalid."""

    code, status, exit = "usage", 400, 2
    remedy = "Correct the arguments and call it again."


class QuestionSettled(UsageError):
    """The question has another answer already, or has expired."""

    code, status = "question_settled", 409
    remedy = "The first answer counts. `holdfast waiting` lists what is open."


class StoreError(HoldfastError, OSError):
    """The store could not complete the operation."""

    code, status = "store", 503
    remedy = "Check the store with `holdfast doctor`."


class Fenced(StoreError):
    """Another writer has taken over this session; this one can no longer write."""

    code, status, exit = "fenced", 409, 4
    remedy = "Open the session again; the last unacknowledged append may or may not have been stored."


class Locked(StoreError, BlockingIOError):
    """Another process has this session open for writing."""

    code, status, exit = "locked", 409, 4
    remedy = "Wait for it with wait_ms=…, close it there, or open it here with read_only=True."


class Conflict(StoreError):
    """The document was changed by someone else since it was read."""

    code, status = "conflict", 409
    remedy = "Read it again, merge the changes, and write it with the new etag."


class StoreFull(StoreError):
    """The store has no space left; nothing that was recorded is lost."""

    code, status = "store_full", 507
    remedy = "Free some space, then try again; an open session continues where it stopped."


class SyncFailed(StoreError):
    """The medium failed to sync; the session is read-only from now on."""

    code = "sync_failed"
    remedy = "Check the disk, then open the session again; `.unsaved` has the events that may be lost."


class Unavailable(StoreError, ConnectionError):
    """The store cannot be reached or used."""

    code = "unavailable"
    remedy = "Check that the store exists and that you may read and write it."


class DataError(HoldfastError):
    """The data is missing, damaged or not acceptable."""

    code, status = "data", 409
    remedy = "Check the data with `holdfast verify`."


class NotFound(DataError, KeyError):
    """There is no such session."""

    code, status, exit = "not_found", 404, 3
    remedy = "List the existing sessions with `holdfast list`."


class Damaged(DataError, ValueError):
    """Stored bytes differ from what was written."""

    code, exit = "damaged", 4
    remedy = "See what is intact with `holdfast verify`, then run `holdfast repair`."


class TooNew(DataError, ValueError):
    """The session was written by a newer major version of Holdfast; it was left untouched."""

    code, exit = "too_new", 4
    remedy = "Install a newer Holdfast to open it."


class TooLarge(DataError, ValueError):
    """The data exceeds a limit; nothing was written."""

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
    """A security rule does not allow this."""

    code, status, exit = "security", 403, 4
    remedy = "The message names the rule."


class KeyMissing(SecurityError):
    """The session is sealed and its key is not available."""

    code = "key_missing"
    remedy = "Give its key with holdfast.open(key=…), HOLDFAST_KEY, or `key` in your config.toml."


class Tampered(SecurityError, ValueError):
    """Sealed data failed authentication."""

    code = "tampered"
    remedy = "Restore the session from a copy that you trust."


class SecretFound(SecurityError, ValueError):
    """The data to be recorded contains a secret."""

    code = "secret_found"
    remedy = 'Remove the secret, or set redaction.mode to "mark" to have it replaced.'


class Forbidden(SecurityError, PermissionError):
    """This place or action is not allowed."""

    code = "forbidden"
    remedy = "The message says what would be allowed."


class StepError(HoldfastError, RuntimeError):
    """A durable step has no result to give."""

    code, status = "step", 409
    remedy = "Look at the session to see how far the step got."


class OutcomeUnknown(StepError):
    """The step began and was interrupted; it is unknown whether it took effect."""

    code = "outcome_unknown"
    remedy = 'Check what it changes, then call it with unknown="rerun", or with a function that looks up its result.'


class StepFailed(StepError):
    """The step failed in an earlier run and is not run again."""

    code = "step_failed"
    remedy = "Call it with retry=Retry(attempts=…) and more attempts than before, or with another key."


class ResultNotStored(StepError):
    """The step is done, but its result could not be recorded."""

    code = "result_not_stored"
    remedy = "Return plain JSON data from the function; this step will not run again."


class AgentError(HoldfastError, RuntimeError):
    """The agent or its model failed."""

    code, status = "agent", 502
    remedy = "The session is intact; run the agent again to continue."


class AgentNoLoadSupport(AgentError):
    """The agent cannot load earlier sessions."""

    code = "agent_no_load_support"
    remedy = "Start a new agent session; the transcript can be given to it as context."


class AgentTypeMismatch(AgentError):
    """The stored agent state belongs to an agent of another type; it was left untouched."""

    code, status = "agent_type_mismatch", 409
    remedy = "Use the stored agent type, or another agent id."


class ModelFailed(AgentError):
    """The model could not be reached, or gave no answer."""

    code = "model_failed"
    remedy = "The session is intact; run the agent again when the model can be reached."


class TooManyIterations(AgentError):
    """The agent reached its limit of iterations without finishing."""

    code = "too_many_iterations"
    remedy = "Look at the last steps of the session, and raise max_iterations if they make sense."


class ResumeTokenError(AgentError):
    """The suspended session was not resumed."""

    code, status = "resume_token", 409
    remedy = "Use the token that the suspension issued, once, before it expires."


class ResumeTokenInvalid(ResumeTokenError):
    """The session never issued this token."""

    code = "resume_token_invalid"
    remedy = "Use the token that the suspension issued, with the session that issued it."


class ResumeTokenExpired(ResumeTokenError):
    """The token has expired."""

    code, status = "resume_token_expired", 410
    remedy = "The session is intact; continue it with a new message."


class ResumeTokenUsed(ResumeTokenError):
    """The token was used before, or the session continued without it."""

    code = "resume_token_used"
    remedy = "The session is intact; continue it with a new message."
