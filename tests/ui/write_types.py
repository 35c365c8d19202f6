"""Writes the types of the web UI anew from the description of the API: `make ui-types`."""

import tempfile
from pathlib import Path

import msgspec

from tests.api.described import description
from tests.ui.test_ui import TOOLS, UI, ran

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder) / "openapi.json"
        described.write_bytes(msgspec.json.encode(description()))
        ran(TOOLS / "openapi-typescript", described, "-o", UI / "src" / "api" / "schema.ts")
