"""Pictures of the documentation are there, and small enough for a page: `python -m tests.screenshots` takes them."""

from __future__ import annotations

import re

from tests.docs import DOCS

MOST_BYTES = 150_000


def test_every_picture_that_is_shown_is_there_and_small() -> None:
    shown = {
        (page.parent / path).resolve()
        for page in DOCS.rglob("*.md")
        for path in re.findall(r"!\[[^\]]*\]\(([^):]+\.png)\)", page.read_text())
    }
    assert shown
    for picture in shown | set((DOCS / "images").iterdir()):
        assert 0 < picture.stat().st_size < MOST_BYTES, picture
