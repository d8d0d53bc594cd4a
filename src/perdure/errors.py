"""Every error Perdure raises, in one tree.

    PerdureError
    ├── ConfigError            wrong use: a setting, an argument, a declaration
    ├── ForkedProcess          wrong use: a store that was opened before fork() cannot be used in the child
    ├── StoreError
    │   ├── StoreUnavailable   the database cannot be reached, or is busy for too long
    │   │   └── CommitUnknown  a commit was sent and its outcome is not known yet
    │   ├── StoreFull          no space on the disk
    │   ├── NotPermitted       the login's rights in the database do not allow it
    │   ├── SchemaMismatch     the store was written by another version
    │   └── Damaged            stored bytes have changed
    ├── NotFound
    ├── Conflict               it already exists with other content
    │   └── PolicyChanged      the policy changed between a judgement and its dispatch
    ├── IllegalMove            the current state does not allow this move
    ├── QueueError
    │   ├── QueueClosed        nothing new is started in this queue
    │   └── QueueFull          as many sessions are ready as the queue allows
    ├── LeaseError
    │   ├── LeaseHeld          another worker runs this session now
    │   └── LeaseLost          another worker has taken over this session
    ├── EffectError
    │   ├── EffectInDoubt      dispatched, and the outcome is unknown
    │   ├── EffectCompensated  done, and undone later
    │   └── NotDone            proof that it did not happen
    ├── ApprovalError
    │   ├── ApprovalDenied
    │   ├── ApprovalExpired
    │   └── PolicyDenied
    ├── ProgramError
    │   ├── ProgramUnknown     no program of this name is loaded
    │   ├── ProgramChanged     the code no longer makes a recorded call
    │   └── StepFailed         a recorded step raised
    ├── SessionError
    │   ├── SessionFailed
    │   └── SessionWaiting     only a person can continue it
    ├── AccessError
    │   ├── NotAuthenticated   the service does not know who asks
    │   ├── NotAllowed         the roles or the scopes of the caller do not allow it
    │   └── TooManyRequests    the caller asks more often than it may
    ├── RequestError
    │   ├── KeyReused          the idempotency key was used for another request
    │   ├── RequestInFlight    a request with this idempotency key is being carried out
    │   └── VersionChanged     the object is not as the client has read it
    ├── BundleInvalid
    ├── ModelError
    └── ToolError

    Suspended (BaseException)  unwinds a program that waits; never caught by `except Exception`

The message of an error states in one sentence what happened. `code` is stable and meant for programs, `hint` states
what to do, and `retry` whether a repetition can help.
"""

from __future__ import annotations

from typing import Any, ClassVar


class PerdureError(Exception):
    """The base class of every error that Perdure raises on purpose."""

    code: ClassVar[str] = "perdure"
    hint: str = "Run `perdure doctor` to check the store."
    retry: bool = False

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if hint is not None:
            self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message,), self.__dict__)


class ConfigError(PerdureError):
    """A setting, an argument or a declaration is wrong; nothing was done."""

    code = "config"
    hint = "Correct the named value and run again."


class ForkedProcess(PerdureError):
    """A store, runtime or session was used in a child made by `fork()`; nothing was done."""

    code = "forked-process"
    hint = "Start the child with `spawn` (multiprocessing) or `subprocess`, or open the store only after the fork."


class StoreError(PerdureError):
    """The store could not carry out a request."""

    code = "store"


class StoreUnavailable(StoreError):
    """The database cannot be reached, or was busy for longer than a move may wait. Nothing was written."""

    code = "store-unavailable"
    hint = "Check that the database is up and reachable, then run again."
    retry = True


class CommitUnknown(StoreUnavailable):
    """The commit was sent, and its outcome could not be determined within the time limit."""

    code = "commit-unknown"
    hint = "Check again when the database is back: the move was written completely or not at all."
    retry = False


class StoreFull(StoreError):
    """There is no space left. The move was not written; nothing earlier was lost."""

    code = "store-full"
    hint = "Free some space (`perdure doctor` shows how much is left), then run again."
    retry = True


class NotPermitted(StoreError):
    """The rights of this login in the database do not allow the request. Nothing was written."""

    code = "not-permitted"
    hint = "Use a login that has the right role; `perdure roles` shows who has which."


class SchemaMismatch(StoreError):
    """The store's schema is newer than this version understands, or older than it can use."""

    code = "schema-mismatch"
    hint = "Install the version of Perdure that wrote this store, or run `perdure migrate`."


class Damaged(StoreError):
    """Stored bytes no longer match their digest or their chain."""

    code = "damaged"
    hint = "`perdure doctor --deep` names every damaged row. Restore a backup; other sessions can be exported."


class NotFound(PerdureError):
    """Nothing is stored under this name."""

    code = "not-found"
    hint = "Check the name; the list commands show what exists."


class Conflict(PerdureError):
    """The name is already used, or the object has changed since it was read."""

    code = "conflict"
    hint = "Read it again, or choose another id."


class PolicyChanged(Conflict):
    """The policy of the store changed after the call was judged. Nothing was dispatched; the call is judged anew."""

    code = "policy-changed"
    hint = "Run it again: it is judged by the present policy."
    retry = True


class IllegalMove(PerdureError):
    """The current state does not allow this move; nothing was changed."""

    code = "illegal-move"
    hint = "Check the current state first."


class QueueError(PerdureError):
    """The queue did not take the session; nothing was started."""

    code = "queue"
    retry = True


class QueueClosed(QueueError):
    """The queue is closed: nothing new is started in it."""

    code = "queue-closed"
    hint = "Choose another queue, or open it: `perdure queues set NAME --open`."


class QueueFull(QueueError):
    """The queue has as many ready sessions as it may."""

    code = "queue-full"
    hint = "Start it again when workers have taken some: `perdure queues` shows how many are ready."


class LeaseError(PerdureError):
    """This process does not hold the lease of the session."""

    code = "lease"


class LeaseHeld(LeaseError):
    """Another worker holds the lease; the message names it."""

    code = "lease-held"
    hint = "Wait until it has finished, or use `perdure attach` to watch it."
    retry = True


class LeaseLost(LeaseError):
    """The lease expired or was taken over; this worker must stop running the session."""

    code = "lease-lost"
    hint = "Nothing is lost: another worker continues from the last recorded move."


class EffectError(PerdureError):
    """An effect was not done, or its outcome is unknown."""

    code = "effect"


class EffectInDoubt(EffectError):
    """The effect was dispatched, and it is unknown whether it happened."""

    code = "effect-in-doubt"
    hint = "Check the outside system, then settle the effect with `perdure settle`."


class EffectCompensated(EffectError):
    """The effect happened and was undone; it has no successor."""

    code = "effect-compensated"
    hint = "Make the call again if the action is still wanted."


class NotDone(EffectError):
    """Proof that the effect did not happen. A tool raises it to report this."""

    code = "not-done"
    hint = "The outside world is unchanged; it is safe to try again."


class ApprovalError(PerdureError):
    """A person or a policy did not allow the effect."""

    code = "approval"


class ApprovalDenied(ApprovalError):
    """A person denied the effect."""

    code = "approval-denied"
    hint = "Read the reason in the approval, then choose another action."


class ApprovalExpired(ApprovalError):
    """The approval expired before a decision."""

    code = "approval-expired"
    hint = "Request it again when a person can decide."


class PolicyDenied(ApprovalError):
    """The policy forbids this effect."""

    code = "policy-denied"
    hint = "Change the intent, or ask for an exemption."


class ProgramError(PerdureError):
    """The code of the program prevents it from continuing."""

    code = "program"


class ProgramUnknown(ProgramError):
    """No program of this name is loaded here."""

    code = "program-unknown"
    hint = "Name the module that defines it with --app."


class ProgramChanged(ProgramError):
    """The code no longer makes a recorded call, and makes a new one instead."""

    code = "program-changed"
    hint = "Restore the call, give the new one its own key, or restart the program."


class StepFailed(ProgramError):
    """A recorded step raised an error; the record has the details."""

    code = "step-failed"
    hint = "The failure is recorded and will be raised again; handle it in the program."


class SessionError(PerdureError):
    """The session has no result."""

    code = "session"


class SessionFailed(SessionError):
    """The session ended with an error or was cancelled."""

    code = "session-failed"
    hint = "See the last events of the session with `perdure show`."


class SessionWaiting(SessionError):
    """The session waits for a person; `waits` lists what for."""

    code = "session-waiting"
    hint = "Answer it, then run the session again."

    @property
    def waits(self) -> list[Any]:
        """The open waits, as records."""
        return list(self.details.get("waits", ()))


class AccessError(PerdureError):
    """The service did not carry out a request because of who asked."""

    code = "access"


class NotAuthenticated(AccessError):
    """The service does not know who asks: no token, or one that is wrong, expired or revoked."""

    code = "not-authenticated"
    hint = (
        "Set PERDURE_TOKEN, or send `Authorization: Bearer TOKEN`. "
        "An owner makes a token with `perdure token create NAME --scope '*'`."
    )


class NotAllowed(AccessError):
    """The roles or the scopes of the caller do not allow the request. Nothing was done."""

    code = "not-allowed"
    hint = "Ask an owner for a role, or for a token with more scopes. `/v1/self` shows what you have."


class TooManyRequests(AccessError):
    """The caller sends more requests than it may. Nothing was done."""

    code = "too-many-requests"
    hint = "Wait for as long as `Retry-After` says."
    retry = True


class RequestError(PerdureError):
    """The service did not carry out a request because of its headers."""

    code = "request"


class KeyReused(RequestError):
    """The idempotency key was used for another request. Nothing was done."""

    code = "key-reused"
    hint = "Use a new Idempotency-Key for each request."


class RequestInFlight(RequestError):
    """A request with this idempotency key is being carried out."""

    code = "request-in-flight"
    hint = "Send it again in a moment."
    retry = True


class VersionChanged(RequestError):
    """The object has changed since it was read. Nothing was done."""

    code = "version-changed"
    hint = "Read it again."


class BundleInvalid(PerdureError):
    """The bundle is incomplete, changed or of an unknown major version; nothing was imported."""

    code = "bundle-invalid"
    hint = "Export the session again at its source."


class ModelError(PerdureError):
    """The model did not answer, or its answer cannot be used.

    `retry` states whether another request can help. `retry_after` is the number of seconds to wait, if it is known.
    """

    code = "model"
    hint = "Check the name, the API key and the quota of the model."
    retry = True

    def __init__(
        self, message: str, *, hint: str | None = None, retry: bool = True, retry_after: float | None = None,
        **details: Any,
    ) -> None:  # fmt: skip
        super().__init__(message, hint=hint, **details)
        self.retry = retry
        self.retry_after = retry_after


class ToolError(PerdureError):
    """A pure tool raised an error in every attempt."""

    code = "tool"
    hint = "The error of the last attempt is in the ledger."


class Suspended(BaseException):
    """Unwinds a program whose session waits. It is not an error, and `except Exception` never sees it."""


for _kind in [one for one in globals().values() if isinstance(one, type) and issubclass(one, BaseException)]:
    _kind.__module__ = "perdure"  # users import them from there, and tracebacks show it
del _kind
