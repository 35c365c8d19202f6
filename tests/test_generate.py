"""Generated blocks of documents that people edit."""

from pathlib import Path

import pytest

from tools.generate.output import Output

PAGE = """# Page

<!-- generated: one -->
old
<!-- end: one -->

By hand.

## Errors
"""


@pytest.fixture
def page(tmp_path: Path) -> str:
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return str(path)


def test_a_block_is_replaced_between_its_markers(page: str) -> None:
    assert Output(page, "new", "one", insert_before="## Errors").render() == PAGE.replace(
        "old", "new"
    )


def test_a_block_without_markers_is_inserted_before_its_heading(page: str) -> None:
    block = "<!-- generated: two -->\nnew\n<!-- end: two -->\n\n"

    rendered = Output(page, "new", "two", insert_before="## Errors").render()

    assert rendered == PAGE.replace("## Errors", f"{block}## Errors")


def test_a_block_without_a_place_is_an_error(page: str) -> None:
    with pytest.raises(SystemExit, match="the markers of block 'two' are missing"):
        Output(page, "new", "two").render()
    with pytest.raises(SystemExit, match="the markers of block 'two' are missing"):
        Output(page, "new", "two", insert_before="## Limits").render()
