"""What runs in a drawing process: it reads one request from its standard input, and answers with the picture.

The promise of this module: whatever a card holds, the process answers or ends. The kernel ends it when a card takes
too long, even if nobody is left to ask for it; memory beyond the limit is refused to it; and it can write no file, not
even a core dump.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
from typing import Final

import msgspec

from gateway.dilem.card.facts import SECONDS
from gateway.dilem.card.render import render_card
from gateway.dilem.contract import CardRequest

MEMORY_BYTES: Final = 300 * 1024 * 1024
NICENESS: Final = 5
"""Drawing yields to answering."""


def main() -> None:
    """Draw one card."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Meant for the parent, which finishes its calls first.
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # The parent gives up before; this is for when there is none any more. Nothing in Python can hold it up.
    signal.alarm(SECONDS + 1)
    logging.disable(logging.CRITICAL)
    os.nice(NICENESS)
    limit_resources()
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=CardRequest)
    sys.stdout.buffer.write(render_card(request.result, request.language, request.theme))
    sys.stdout.buffer.flush()


def limit_resources() -> None:
    """Take from this process what drawing doesn't need."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform == "linux":
        # macOS accepts such a limit and doesn't hold it; there the card's own limits must do.
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
