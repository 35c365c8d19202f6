"""The workflows of a folder: which files they are, deployed and deployed again when they change."""

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from windlass.cli.documents import read_workflow, report
from windlass.core.errors import DefinitionInvalid
from windlass.server import Server

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
LEFT_OUT = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})
DOCUMENTS_MAX = 1_000
ENTRIES_MAX = 20_000
DEPTH_MAX = 4
# Enough of a document to see what it is.
HEAD_BYTES = 65_536
# Every workflow has an id; a document with nodes and without one is a mistake worth telling.
WORKFLOW = re.compile(rb"""(?:^|[{,\s"'])workflow_id["']?\s*:|^nodes\s*:""", re.MULTILINE)

Stamp = tuple[int, int]


def stamp(file: Path) -> Stamp | None:
    """What tells that a file changed; None when it is not there."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def documents(root: Path) -> dict[Path, Stamp]:
    """The documents of a folder and of those in it, as far as the bounds go; hidden folders are left out."""
    found = {path: changed for path in _files(root) if (changed := stamp(path)) is not None}
    return dict(sorted(found.items())[:DOCUMENTS_MAX])


def _files(root: Path) -> Iterator[Path]:
    folders = [(str(root), 0)]
    seen = 0
    while folders:
        place, depth = folders.pop()
        try:
            entries = list(os.scandir(place))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > ENTRIES_MAX:
                return
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < DEPTH_MAX and entry.name not in LEFT_OUT:
                    folders.append((entry.path, depth + 1))
            elif Path(entry.name).suffix in SUFFIXES:
                yield Path(entry.path)


def looks_like_workflow(file: Path) -> bool:
    """Whether a document means to be a workflow: folders hold others, such as package.json."""
    try:
        with file.open("rb") as content:
            return WORKFLOW.search(content.read(HEAD_BYTES)) is not None
    except OSError:
        return False


class Deployer:
    """Deploys the documents of a folder to the engine in this process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stamps: Mapping[Path, Stamp] = {}
        # Which file a workflow comes from: a second one would add a version at each start.
        self._files: dict[str, Path] = {}

    async def renew(self, system: Server) -> None:
        """Deploy what is new or changed since the last time."""
        await self._deploy(system, await asyncio.to_thread(self._changed))

    def _changed(self) -> list[Path]:
        now = documents(self._root)
        changed = [path for path, was in now.items() if self._stamps.get(path) != was and looks_like_workflow(path)]
        self._stamps = now
        return changed

    async def _deploy(self, system: Server, files: Iterable[Path]) -> None:
        """Store each as a version of its workflow, and say so. One that cannot be used changes nothing."""
        for file in files:
            try:
                definition, warnings = read_workflow(file, system.process.handlers)
            except DefinitionInvalid as refused:
                report(file, refused.problems)
                continue
            report(file, warnings)
            workflow_id = definition.workflow_id
            first = self._files.setdefault(workflow_id, file)
            if first != file and first in self._stamps:
                click.echo(f"{file}: not deployed: workflow {workflow_id} is already in {first}", err=True)
                continue
            self._files[workflow_id] = file
            stored = await system.embedded.deploy(definition)
            kind = "deployed" if stored.is_new else "unchanged"
            click.echo(f"{kind}: {workflow_id} version {stored.version} ({file})")
