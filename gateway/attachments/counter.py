"""What runs in a counting process: it reads PDFs from its standard input and answers with their number of pages.

The promise of this module: whatever a file holds, the process answers or ends. The kernel ends it when a file takes
too long, even if nobody is left to ask for it; memory beyond the limit is refused to it; and it can write no file,
not even a core dump. It ends by itself when its input does, that is when its parent is gone.
"""

from __future__ import annotations

import binascii
import gc
import logging
import os
import resource
import signal
import sys
import threading
import time
from io import BytesIO
from typing import BinaryIO, Final

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError, WrongPasswordError

from gateway.attachments.verdicts import ANSWER, COUNTING_SECONDS, HEADER, Outcome, Verdict

MEMORY_BYTES: Final = 512 * 1024 * 1024
NICENESS: Final = 5
"""Counting yields to answering."""

MEMORY_CHECK_SECONDS: Final = 0.02
_ENDED_FOR_MEMORY: Final = 3


class EncryptedError(Exception):
    """The PDF is encrypted, though it may open without a password."""


def main() -> None:
    """Answer file after file, until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Meant for the parent, which finishes its calls first and then closes the input.
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    logging.disable(logging.CRITICAL)
    os.nice(NICENESS)
    limit_resources()
    os.write(1, ANSWER.pack(Outcome.COUNTED, 0))
    serve(sys.stdin.buffer, 1)


def limit_resources() -> None:
    """Take from this process what counting pages doesn't need."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    else:
        # macOS accepts such a limit and doesn't hold it.
        threading.Thread(target=end_beyond, args=(MEMORY_BYTES,), daemon=True).start()


def end_beyond(most: int) -> None:
    """End this process as soon as its memory has been larger than that."""
    # Systems differ in whether a process begins with the peak of the one it was forked from.
    most = max(most, _peak())
    while _peak() <= most:
        time.sleep(MEMORY_CHECK_SECONDS)
    os._exit(_ENDED_FOR_MEMORY)


def _peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def serve(files: BinaryIO, answers: int) -> None:
    """Read one file at a time and answer it."""
    while len(header := files.read(HEADER.size)) == HEADER.size:
        # The parent gives up before; this is for when there is none any more. Nothing in Python can hold it up.
        signal.setitimer(signal.ITIMER_REAL, COUNTING_SECONDS + 1)
        (length,) = HEADER.unpack(header)
        written = files.read(length)
        if len(written) < length:
            return
        os.write(answers, ANSWER.pack(*judge(written)))
        signal.setitimer(signal.ITIMER_REAL, 0)
        del written
        # A reader and its objects hold each other.
        gc.collect()


def judge(written: bytes) -> Verdict:
    """Count the pages of a base64 PDF, or say what kept from it."""
    data = b""
    try:
        data = binascii.a2b_base64(written)
        pages = count_pages(data)
    except (MemoryError, RecursionError, LimitReachedError):
        return Verdict(Outcome.TOO_COMPLEX)
    except (EncryptedError, FileNotDecryptedError, WrongPasswordError, DependencyError):
        return Verdict(Outcome.ENCRYPTED)
    except Exception:  # noqa: BLE001 - a damaged file raises whatever it can, and this process must go on
        return Verdict(Outcome.ENCRYPTED if b"/Encrypt" in data else Outcome.DAMAGED)
    return Verdict(Outcome.COUNTED, pages) if pages > 0 else Verdict(Outcome.NO_PAGES)


def count_pages(data: bytes) -> int:
    """Walk the tree of pages; what the file says of their number is not believed."""
    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted:
        raise EncryptedError
    return len(reader.pages)
