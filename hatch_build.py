"""Puts the web UI into packages: builds it when that was not done yet. Users of a wheel or an sdist need no Node.js."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/windlass/_ui/index.html"
# Browsers are for the tests of the UI.
ENVIRONMENT = {"PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"}


class UiBuild(BuildHookInterface):
    """Runs before a wheel or an sdist is packed."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the UI, unless it is there or its sources are not. An editable install shows what is in the tree."""
        root = Path(self.root)
        if version == "editable" or (root / PAGE).is_file() or not (root / "ui" / "package.json").is_file():
            return
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError("the web UI is built with npm, and there is none; install Node.js 20 or newer")
        for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([npm, *command], cwd=root / "ui", env={**os.environ, **ENVIRONMENT}, check=True)
