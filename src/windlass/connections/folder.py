"""The directory in which workflows may write files; their paths cannot leave it."""

from pathlib import Path

from windlass.core.errors import FatalError

PATH_CHARS_MAX = 1_024


class PathRefused(FatalError):
    """A workflow uses a path that is not allowed."""

    type = "path_refused"


class Folder:
    """A directory and everything below it, except one database and the files that belong to it."""

    def __init__(self, root: Path, reserved: Path | None = None) -> None:
        self._root = root.resolve()
        self._reserved = reserved
        if reserved is not None:
            self._reserved = reserved.resolve()

    def resolve(self, path: str) -> Path:
        """Return the absolute path, with links resolved; raise PathRefused if it is not below the directory."""
        if not path or len(path) > PATH_CHARS_MAX or "\0" in path:
            raise PathRefused(
                f"invalid path: {path[:100]!r}; write 1 to {PATH_CHARS_MAX} characters without NUL"
            )
        if ".." in Path(path).parts:
            raise PathRefused(f"path contains '..': {path!r}; write it relative to {self._root}")
        try:
            resolved = (self._root / path).resolve()
        except (OSError, RuntimeError) as error:  # a cycle of links
            raise PathRefused(f"path cannot be resolved: {path!r}: {error}") from None
        if not resolved.is_relative_to(self._root) or resolved == self._root:
            raise PathRefused(
                f"path not allowed: {path!r} is {resolved}, outside of the directory {self._root} of the setting "
                "sinks.folder"
            )
        if self._is_reserved(resolved):
            raise PathRefused(
                f"path not allowed: {path!r} belongs to the engine's database; use another"
            )
        return resolved

    def _is_reserved(self, path: Path) -> bool:
        if self._reserved is None or path.parent != self._reserved.parent:
            return False
        return path.name.startswith(self._reserved.name)
