"""What a generator writes: a whole file, or one marked block of a file that people edit."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Output:
    """Generated text for `path`; with `block`, only what stands between that block's two marker comments.

    A block that the file does not have is inserted before the line `insert_before`, or is an error without one.
    """

    path: str
    text: str
    block: str | None = None
    insert_before: str | None = None

    def render(self) -> str:
        """Return the file's whole text as it should be."""
        if self.block is None:
            return self.text
        begin, end = f"<!-- generated: {self.block} -->\n", f"<!-- end: {self.block} -->\n"
        block = f"{begin}{self.text.strip()}\n{end}"
        current = (ROOT / self.path).read_text(encoding="utf-8")
        if current.count(begin) == 1 and current.count(end) == 1:
            before, rest = current.split(begin)
            _, after = rest.split(end)
            return f"{before}{block}{after}"
        line = f"\n{self.insert_before}\n"
        if begin in current or end in current or current.count(line) != 1:
            raise SystemExit(
                f"{self.path}: the markers of block {self.block!r} are missing; add them where it belongs"
            )
        before, after = current.split(line)
        return f"{before}\n{block}{line}{after}"
