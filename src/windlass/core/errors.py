"""The errors that Windlass raises.

WindlassError
├── DefinitionInvalid      a workflow document is invalid; carries every problem found
├── InputInvalid           the input of a job does not match the schema of the workflow; carries every problem
├── SettingsInvalid        invalid settings; carries every problem
├── TemplateInvalid        a template is invalid (syntax, forbidden construct, too large)
├── TemplateFailed         a valid template cannot be rendered with the given values
├── ScheduleInvalid        an invalid cron expression or time zone
├── SignatureInvalid       a webhook without a valid signature
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
├── StaleLease             the shard has another owner; nothing was written
├── CommitUnknown          a commit failed, or its outcome is unknown
├── StoreUnavailable       the database cannot be used (locked, full, too new)
│   └── StoreUnusable      no retry helps: the database is read-only, damaged, deleted, or not a database
├── BrokerUnavailable      the broker cannot be reached; the call may or may not have taken effect
├── DatabaseInUse          another process owns this embedded database
├── ApiError               a server refused a request for a reason without a class of its own
├── ServerUnreachable      the server at a URL does not respond
│   └── ResponseLost       the connection ended after the request was sent: it may have taken effect
├── HandlerInvalid         the declaration of a handler is invalid
├── ParamsInvalid          the params of a task do not match the signature of its handler
├── RetryableError         raised by a handler: another attempt may succeed
└── FatalError             raised by a handler: no other attempt can succeed
"""

from collections.abc import Sequence

from msgspec import Struct


class Problem(Struct, frozen=True, kw_only=True):
    """A problem in a document: its position, a message, and how to fix it."""

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
    """The base class of all errors."""


class ProblemsFound(WindlassError):
    """A refusal with the list of all its reasons."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class DefinitionInvalid(ProblemsFound):
    """A workflow document is invalid."""


class InputInvalid(ProblemsFound):
    """The input of a job does not match the schema of the workflow."""


class SettingsInvalid(ProblemsFound):
    """A setting in windlass.toml, the environment or the flags is invalid."""


class TemplateInvalid(WindlassError):
    """A template is invalid, whatever the values."""


class TemplateFailed(WindlassError):
    """A valid template cannot be rendered with the given values. Never retried."""


class ScheduleInvalid(WindlassError):
    """A cron expression or time zone is invalid."""


class SignatureInvalid(WindlassError):
    """The signature of a webhook is invalid or too old."""


class IllegalMove(WindlassError):
    """A transition that no table of moves lists."""


class NotFound(WindlassError):
    """An object that the caller names does not exist."""


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
    """A large value is no longer in the artifact store."""


class RequestRefused(WindlassError):
    """The state of the job does not allow the request."""


class IdempotencyConflict(WindlassError):
    """The idempotency key was used before with another request."""


class StaleLease(WindlassError):
    """The shard has another owner. Nothing was written."""


class CommitUnknown(WindlassError):
    """A commit failed or its outcome is unknown: the owner must reload from the database."""


class StoreUnavailable(WindlassError):
    """The database cannot be used."""


class StoreUnusable(StoreUnavailable):
    """The database cannot be used until someone repairs it, or its permissions."""


class BrokerUnavailable(WindlassError):
    """The broker cannot be reached. The call may or may not have taken effect; the database decides."""


class DatabaseInUse(WindlassError):
    """Another process owns this embedded database."""


class ApiError(WindlassError):
    """A server refused a request. `request_id` identifies the request in the log of the server."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        problems: Sequence[Problem] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__("\n".join([message, *(str(problem) for problem in problems)]))
        self.status = status
        self.problems = tuple(problems)
        self.request_id = request_id


class ServerUnreachable(WindlassError):
    """The server does not respond."""


class ResponseLost(ServerUnreachable):
    """The connection ended before the response arrived: the request may have taken effect."""


class HandlerInvalid(WindlassError):
    """The declaration of a handler is invalid."""


class ParamsInvalid(WindlassError):
    """The params of a task do not match the signature of its handler."""


class RetryableError(WindlassError):
    """Raise in a handler: this attempt failed, another one may succeed."""

    def __init__(
        self, message: str = "", *, retry_after: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status


class FatalError(WindlassError):
    """Raise in a handler: this attempt failed, and no other one can succeed."""

    def __init__(self, message: str = "", *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
