"""Exit codes of the command line."""

COMPLETED = 0
# The job failed or was cancelled, or an internal error occurred.
FAILED = 1
# Invalid document, arguments, settings or database, or a request that a server rejected.
INVALID = 2
INTERRUPTED = 130
