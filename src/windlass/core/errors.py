"""Every error that Windlass raises on purpose.

WindlassError
├── DefinitionInvalid      a workflow document was refused; carries every problem found
├── InputInvalid           a job's input does not fit the workflow's schema; carries every problem
├── SettingsInvalid        settings that cannot be used; carries every problem
├── TemplateInvalid        a template cannot be accepted (syntax, forbidden construct, too large)
├── TemplateFailed         an accepted template could not be rendered with the values at hand
├── ScheduleInvalid        a cron expression or time zone that cannot be used
├── SignatureInvalid       a webhook that is not signed as it should be
├── IllegalMove            a state transition that no table lists
├── NotFound
│   ├── WorkflowNotFound
│   ├── JobNotFound
│   ├── NodeNotFound
│   ├── ScheduleNotFound
│   ├── RunNotFound
│   ├── DeliveryNotFound
│   └── ArtifactNotFound
├── RequestRefused         cancel or retry of a job whose state does not allow it
├── IdempotencyConflict    the same idempotency key with another body
├── StaleLease             the shard has another owner now; nothing was written
├── CommitUnknown          a commit failed, or its outcome cannot be known
├── StoreUnavailable       the database cannot be used (locked, full, damaged, too new)
├── BrokerUnavailable      the queues cannot be reached; what was asked may or may not have happened
├── DatabaseInUse          another process owns this embedded database
├── ApiError               a server refused a request, for a reason that no other class names
├── ServerUnreachable      no server answers at a URL
│   └── AnswerLost         the connection ended after the request was sent: it may have taken effect
├── HandlerInvalid         a handler is declared in a way that cannot work
├── ParamsInvalid          a task's params do not fit its handler's signature
├── RetryableError         raised by a handler: worth another attempt
└── FatalError             raised by a handler: another attempt cannot help
"""

from collections.abc import Sequence

from msgspec import Struct


class Problem(Struct, frozen=True, kw_only=True):
    """One thing wrong with a document: where it is, what it is, and what to do about it."""

    path: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None
    warning: bool = False

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}: " if self.line is not None else ""
        at = f"{self.path}: " if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{at}{self.message}{hint}"


class WindlassError(Exception):
    """The root of everything raised on purpose."""


class ProblemsFound(WindlassError):
    """Something was refused for the reasons in `problems`, all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class DefinitionInvalid(ProblemsFound):
    """A workflow document was refused."""


class InputInvalid(ProblemsFound):
    """A job's input does not fit what the workflow declares."""


class SettingsInvalid(ProblemsFound):
    """Something in windlass.toml, the environment or the flags cannot be used."""


class TemplateInvalid(WindlassError):
    """A template that cannot be accepted, whatever the values."""


class TemplateFailed(WindlassError):
    """An accepted template that cannot be rendered with these values. Never retried."""


class ScheduleInvalid(WindlassError):
    """A cron expression or time zone that cannot be used."""


class SignatureInvalid(WindlassError):
    """A webhook that is not signed as it should be, or too long ago."""


class IllegalMove(WindlassError):
    """A transition that the tables of moves do not list."""


class NotFound(WindlassError):
    """A thing named by the caller does not exist."""


class WorkflowNotFound(NotFound):
    """No workflow, or no version of it, has this name."""


class JobNotFound(NotFound):
    """No job has this id."""


class NodeNotFound(NotFound):
    """The workflow has no node with this id."""


class ScheduleNotFound(NotFound):
    """The workflow has no schedule."""


class RunNotFound(NotFound):
    """No run has this id."""


class DeliveryNotFound(NotFound):
    """No delivery has this id."""


class ArtifactNotFound(NotFound):
    """A large value is not in the artifact store any more."""


class RequestRefused(WindlassError):
    """The job's state does not allow what was asked."""


class IdempotencyConflict(WindlassError):
    """The idempotency key was used before with another body."""


class StaleLease(WindlassError):
    """The shard belongs to another owner now. Nothing was written."""


class CommitUnknown(WindlassError):
    """A commit failed or nobody knows whether it took effect: the owner must reload from rows."""


class StoreUnavailable(WindlassError):
    """The database cannot be used as it is."""


class BrokerUnavailable(WindlassError):
    """The queues cannot be reached. What was asked may or may not have happened; rows know."""


class DatabaseInUse(WindlassError):
    """Another process owns this embedded database."""


class ApiError(WindlassError):
    """A server refused a request. `status` is HTTP's; `request_id` finds the request in the server's log."""

    def __init__(
        self, message: str, *, status: int, problems: Sequence[Problem] = (), request_id: str | None = None
    ) -> None:
        super().__init__("\n".join([message, *(str(problem) for problem in problems)]))
        self.status = status
        self.problems = tuple(problems)
        self.request_id = request_id


class ServerUnreachable(WindlassError):
    """No server answers."""


class AnswerLost(ServerUnreachable):
    """The connection ended before the answer came: what was asked may have taken effect."""


class HandlerInvalid(WindlassError):
    """A handler is declared in a way that cannot work."""


class ParamsInvalid(WindlassError):
    """A task's params do not fit its handler's signature."""


class RetryableError(WindlassError):
    """Raise in a handler: this attempt failed, another one may succeed."""

    def __init__(self, message: str = "", *, retry_after: float | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status


class FatalError(WindlassError):
    """Raise in a handler: this attempt failed, and no other one can succeed."""

    def __init__(self, message: str = "", *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
