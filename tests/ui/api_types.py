"""The TypeScript types of the web UI, generated from the OpenAPI document (`make ui-types`)."""

import os
import subprocess
import tempfile
from pathlib import Path

import msgspec

from tests.api.openapi_document import described_api

UI = Path(__file__).resolve().parent.parent.parent / "ui"
TOOLS = UI / "node_modules" / ".bin"
TYPES = UI / "src" / "api" / "schema.ts"


def ran(*argv: str | Path) -> None:
    """Run a tool of the UI; its output is the message of a failure."""
    done = subprocess.run(
        argv, check=False, cwd=UI, env={**os.environ, "CI": "1"}, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-4_000:]


def generated() -> str:
    """Return the current types. The UI does not use the types of paths, so they are removed."""
    described = described_api()
    shapes = {
        **described,
        "paths": {},
        "components": {"schemas": described["components"]["schemas"]},
    }
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "openapi.json", Path(folder) / "schema.ts"
        source.write_bytes(msgspec.json.encode(shapes))
        ran(TOOLS / "openapi-typescript", source, "-o", target)
        return target.read_text()


if __name__ == "__main__":
    TYPES.write_text(generated())
