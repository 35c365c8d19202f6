"""Builds the web UI into wheels and sdists, so that users do not need Node.js."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/windlass/_ui/index.html"
# Only the tests of the UI need browsers.
ENVIRONMENT = {"PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"}


class UiBuild(BuildHookInterface):
    """A build hook of hatchling."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the UI if its sources are present and it is not built yet. Editable installs use the tree as it is."""
        root = Path(self.root)
        if (
            version == "editable"
            or (root / PAGE).is_file()
            or not (root / "ui" / "package.json").is_file()
        ):
            return
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError("npm not found; install Node.js 20 or newer to build the web UI")
        for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run(
                [npm, *command], cwd=root / "ui", env={**os.environ, **ENVIRONMENT}, check=True
            )
