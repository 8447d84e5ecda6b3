"""The gateway's application over a documentation site that the tests have built (`python -m granian --factory ...`)."""

from __future__ import annotations

import os
from pathlib import Path

from litestar.types import ASGIApp

from gateway import app

SITE = "TESTED_SITE"


def application() -> ASGIApp:
    folder = Path(os.environ[SITE])
    vars(app)["site_folder"] = lambda: folder
    return app.application()
