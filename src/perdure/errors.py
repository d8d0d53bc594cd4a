"""Every error Perdure raises, in one tree.

    PerdureError
    ├── ConfigError            wrong use: a setting, an argument, a declaration
    ├── ForkedProcess          wrong use: a store that was opened before fork() has no use in the child
    ├── StoreError
    │   ├── StoreUnavailable   the database cannot be reached, or is busy for too long
    │   │   └── CommitUnknown  a commit was sent and nobody can say yet whether it holds
    │   ├── StoreFull          no room on the disk
    │   ├── SchemaMismatch     the store was written by another version
    │   └── Damaged            stored bytes are not what they were
    ├── NotFound
    ├── Conflict               it exists already, with other content
    ├── IllegalMove            the thing is in a state that does not allow this
    ├── LeaseError
    │   ├── LeaseHeld          somebody else moves this session now
    │   └── LeaseLost          somebody else moves it since
    ├── EffectError
    │   ├── EffectInDoubt      dispatched, and nobody can say what came of it
    │   ├── EffectCompensated  done, and undone since
    │   └── NotDone            proof that it did not happen
    ├── ApprovalError
    │   ├── ApprovalDenied
    │   ├── ApprovalExpired
    │   └── PolicyDenied
    ├── ProgramError
    │   ├── ProgramUnknown     no code is loaded under this name
    │   ├── ProgramChanged     the code no longer asks for what was recorded
    │   └── StepFailed         a recorded step raised
    ├── SessionError
    │   ├── SessionFailed
    │   └── SessionWaiting     only a person can go on
    ├── BundleInvalid
    ├── ModelError
    └── ToolError

    Suspended (BaseException)  unwinds a program that waits; never caught by `except Exception`

An error says what happened in one sentence; `code` is stable and meant for programs, `hint` says what to do,
`retry` whether doing the same again can help.
"""

from __future__ import annotations

from typing import Any, ClassVar


class PerdureError(Exception):
    """The root of every error that Perdure raises on purpose."""

    code: ClassVar[str] = "perdure"
    hint: str = "Run `perdure doctor` to see what state the store is in."
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
    hint = "Open the store in the child itself, or start the child with `spawn` (multiprocessing) or `subprocess`."


class StoreError(PerdureError):
    """The store could not do what it was asked."""

    code = "store"


class StoreUnavailable(StoreError):
    """The database cannot be reached, or was busy for longer than a move may wait. Nothing was written."""

    code = "store-unavailable"
    hint = "Check that the database is up and reachable, then run again."
    retry = True


class CommitUnknown(StoreUnavailable):
    """The commit was sent and its outcome could not be found out within the time limit."""

    code = "commit-unknown"
    hint = "Look again when the database is back: the move is either wholly there or not there at all."
    retry = False


class StoreFull(StoreError):
    """There is no room left; the move was not written and nothing earlier was lost."""

    code = "store-full"
    hint = "Free some space (`perdure doctor` shows how much there is), then run again."
    retry = True


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
    hint = "List what there is, and check the name."


class Conflict(PerdureError):
    """The name is taken by something else, or the thing has changed since it was read."""

    code = "conflict"
    hint = "Read it again and decide, or choose another id."


class IllegalMove(PerdureError):
    """The thing is in a state that does not allow this move; nothing was changed."""

    code = "illegal-move"
    hint = "Look at its present state first."


class LeaseError(PerdureError):
    """The exclusive right to move a session is not ours."""

    code = "lease"


class LeaseHeld(LeaseError):
    """Another worker holds the lease now; its identity is in the message."""

    code = "lease-held"
    hint = "Wait until it is done, or attach to watch it."
    retry = True


class LeaseLost(LeaseError):
    """The lease ended or was taken over; this worker must stop moving the session."""

    code = "lease-lost"
    hint = "Nothing is lost: another worker goes on from the last recorded move."


class EffectError(PerdureError):
    """An effect did not end as the program hoped."""

    code = "effect"


class EffectInDoubt(EffectError):
    """The effect was dispatched and nobody can say whether it happened."""

    code = "effect-in-doubt"
    hint = "Look at the outside system and settle the effect with what you find."


class EffectCompensated(EffectError):
    """The effect happened and was undone; it has no successor."""

    code = "effect-compensated"
    hint = "Plan the action anew if it is still wanted."


class NotDone(EffectError):
    """Proof that the effect did not happen. Raise it in a tool to say so."""

    code = "not-done"
    hint = "The outside world is unchanged; it is safe to try again."


class ApprovalError(PerdureError):
    """A person or a policy did not let the effect happen."""

    code = "approval"


class ApprovalDenied(ApprovalError):
    """A person said no."""

    code = "approval-denied"
    hint = "Read the reason in the approval, and plan something else."


class ApprovalExpired(ApprovalError):
    """Nobody decided in time."""

    code = "approval-expired"
    hint = "Ask again when somebody is there to decide."


class PolicyDenied(ApprovalError):
    """The policy forbids this effect."""

    code = "policy-denied"
    hint = "Change the intent, or ask for an exemption."


class ProgramError(PerdureError):
    """The program cannot go on as it is written."""

    code = "program"


class ProgramUnknown(ProgramError):
    """No program of this name is loaded here."""

    code = "program-unknown"
    hint = "Name the module that defines it with --app."


class ProgramChanged(ProgramError):
    """The code no longer asks for something that was recorded and asks for something new instead."""

    code = "program-changed"
    hint = "Put the call back, give the new one a key of its own, or restart the program."


class StepFailed(ProgramError):
    """A recorded step raised; the record says what."""

    code = "step-failed"
    hint = "The failure is recorded and will be raised again; handle it in the program."


class SessionError(PerdureError):
    """The session has no result to give."""

    code = "session"


class SessionFailed(SessionError):
    """The session ended with an error or was cancelled."""

    code = "session-failed"
    hint = "Show the session's last events to see why."


class SessionWaiting(SessionError):
    """The session waits for a person; `waits` says for what."""

    code = "session-waiting"
    hint = "Answer what it waits for, then run it again."

    @property
    def waits(self) -> list[Any]:
        """What it waits for, as records of `wait`."""
        return list(self.details.get("waits", ()))


class BundleInvalid(PerdureError):
    """The bundle is torn, forged or of an unknown major version; nothing was imported."""

    code = "bundle-invalid"
    hint = "Export it again at its source."


class ModelError(PerdureError):
    """The model did not answer, or not in a form that can be used.

    `retry` says whether asking again can help, `retry_after` how many seconds it asked to be left alone, if it did.
    """

    code = "model"
    hint = "Check the model's name, key and quota."
    retry = True

    def __init__(
        self, message: str, *, hint: str | None = None, retry: bool = True, retry_after: float | None = None,
        **details: Any,
    ) -> None:  # fmt: skip
        super().__init__(message, hint=hint, **details)
        self.retry = retry
        self.retry_after = retry_after


class ToolError(PerdureError):
    """A pure tool raised on every attempt."""

    code = "tool"
    hint = "The error of the last attempt is in the ledger."


class Suspended(BaseException):
    """Unwinds a program whose session waits. It is not an error, and `except Exception` never sees it."""


for _kind in [one for one in globals().values() if isinstance(one, type) and issubclass(one, BaseException)]:
    _kind.__module__ = "perdure"  # from where they are imported, and where a traceback says they are from
del _kind
