"""The workflow files of a directory, deployed when they change."""

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from windlass.cli.documents import read_workflow, report_problems
from windlass.core.errors import DefinitionInvalid
from windlass.server import Server

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
EXCLUDED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})
DOCUMENTS_MAX = 1_000
ENTRIES_MAX = 20_000
DEPTH_MAX = 4
# How much of a document is searched for the keys of a workflow.
HEAD_BYTES = 65_536
# A document with nodes but without an id is a workflow too: reading it reports the missing id.
WORKFLOW_KEY = re.compile(rb"""(?:^|[{,\s"'])workflow_id["']?\s*:|^nodes\s*:""", re.MULTILINE)

# Modification time and size.
FileVersion = tuple[int, int]


def file_version(file: Path) -> FileVersion | None:
    """Return what changes when a file does; None if it does not exist."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def find_documents(root: Path) -> dict[Path, FileVersion]:
    """Return the YAML and JSON files of a directory and its subdirectories, up to the limits."""
    found: dict[Path, FileVersion] = {}
    for path in sorted(_find_files(root)):
        version = file_version(path)
        if version is not None:
            found[path] = version
        if len(found) == DOCUMENTS_MAX:
            break
    return found


def _find_files(root: Path) -> Iterator[Path]:
    """Yield files by suffix, without hidden and excluded directories, until the limit of entries."""
    folders = [(str(root), 0)]
    entries_read = 0
    while folders:
        folder, depth = folders.pop()
        for entry in _entries(folder):
            entries_read += 1
            if entries_read > ENTRIES_MAX:
                return
            if entry.name.startswith("."):
                continue
            if not entry.is_dir(follow_symlinks=False):
                if Path(entry.name).suffix in SUFFIXES:
                    yield Path(entry.path)
            elif depth < DEPTH_MAX and entry.name not in EXCLUDED_FOLDERS:
                folders.append((entry.path, depth + 1))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def looks_like_workflow(file: Path) -> bool:
    """Return whether a document is meant to be a workflow; directories contain others, such as package.json."""
    try:
        with file.open("rb") as content:
            return WORKFLOW_KEY.search(content.read(HEAD_BYTES)) is not None
    except OSError:
        return False


class Deployer:
    """Deploys the workflow files of a directory to the engine of this process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._versions: Mapping[Path, FileVersion] = {}
        # The file of each workflow: two files with one id would add a version at every start.
        self._files: dict[str, Path] = {}

    async def deploy_changes(self, server: Server) -> None:
        """Deploy the files that are new or changed since the last call."""
        changed = await asyncio.to_thread(self._find_changes)
        await self._deploy(server, changed)

    def _find_changes(self) -> list[Path]:
        versions = find_documents(self._root)
        changed: list[Path] = []
        for path, version in versions.items():
            if self._versions.get(path) != version and looks_like_workflow(path):
                changed.append(path)
        self._versions = versions
        return changed

    async def _deploy(self, server: Server, files: Iterable[Path]) -> None:
        """Store each file as a version of its workflow. Invalid files are reported and change nothing."""
        for file in files:
            try:
                definition, warnings = read_workflow(file, server.process.handlers)
            except DefinitionInvalid as error:
                report_problems(file, error.problems)
                continue
            warnings += await server.embedded.deployment_warnings(definition)
            report_problems(file, warnings)
            workflow_id = definition.workflow_id
            first = self._files.setdefault(workflow_id, file)
            if first != file and first in self._versions:
                click.echo(
                    f"{file}: not deployed: workflow {workflow_id} is already defined in {first}",
                    err=True,
                )
                continue
            self._files[workflow_id] = file
            stored = await server.embedded.deploy(definition)
            outcome = "deployed" if stored.is_new else "unchanged"
            click.echo(f"{outcome}: {workflow_id} version {stored.version} ({file})")
