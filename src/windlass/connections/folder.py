"""The folder that workflows may write files in: paths of theirs never lead out of it."""

from pathlib import Path

from windlass.core.errors import FatalError

PATH_CHARS_MAX = 1_024


class PathRefused(FatalError):
    """A workflow names a path that it may not use."""

    type = "path_refused"


class Folder:
    """A folder and everything below it, but for one database and the files that belong to it."""

    def __init__(self, root: Path, reserved: Path | None = None) -> None:
        self._root = root.resolve()
        self._reserved = reserved.resolve() if reserved is not None else None

    def place(self, path: str) -> Path:
        """The file that a path means, its links followed; PathRefused when that is not below the folder."""
        if not path or len(path) > PATH_CHARS_MAX or "\0" in path:
            raise PathRefused(f"the path {path[:100]!r} is none: write 1 to {PATH_CHARS_MAX} characters")
        if ".." in Path(path).parts:
            raise PathRefused(f"the path {path!r} has '..' in it: write it relative to {self._root}")
        try:
            place = (self._root / path).resolve()
        except (OSError, RuntimeError) as error:  # a circle of links
            raise PathRefused(f"the path {path!r} cannot be followed: {error}") from None
        if not place.is_relative_to(self._root) or place == self._root:
            raise PathRefused(
                f"the path {path!r} leads to {place}, outside of the folder {self._root} that sinks may write in; "
                "the setting sinks.folder names another one"
            )
        if self._reserved and place.parent == self._reserved.parent and place.name.startswith(self._reserved.name):
            raise PathRefused(f"the path {path!r} belongs to the database of the engine itself: choose another")
        return place
