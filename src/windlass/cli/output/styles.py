"""Colors and symbols of states."""

STATUS_STYLES = {
    "pending": "dim",
    "ready": "",
    "dispatched": "cyan",
    "running": "cyan",
    "waiting": "yellow",
    "completed": "green",
    "failed": "red",
    "skipped": "dim",
    "cancelled": "yellow",
}
STATUS_SYMBOLS = {
    "pending": "·",
    "ready": "·",
    "dispatched": "◌",
    "waiting": "↻",
    "completed": "✓",
    "failed": "✗",
    "skipped": "→",
    "cancelled": "⊘",
}
# States of runs that jobs and nodes do not have, and outcomes of deliveries.
RUN_STYLES = {
    "completed": "green",
    "delivered": "green",
    "failed": "red",
    "orphaned": "red",
    "cancelled": "yellow",
    "retrying": "yellow",
    "running": "cyan",
}
LEVEL_STYLES = {"debug": "dim", "warning": "yellow", "error": "red"}
