"""What runs in a reading process: it takes one PDF from its standard input and answers with the text of its pages.

As in a counting process, whatever the file holds, the process answers or ends: time and memory are taken from it by the
kernel, and it can write no file.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError, WrongPasswordError

from gateway.attachments.counter import NICENESS, EncryptedError, limit_resources
from gateway.attachments.verdicts import READING_SECONDS, Reading


class _TooLongError(Exception):
    """The text has more characters than wanted."""


def main(most: int) -> None:
    """Answer with one byte, a `Reading`, and the text in UTF-8; `most` is how many characters it may have."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Nothing in Python can hold this up, and it ends the process also when its parent is gone.
    signal.setitimer(signal.ITIMER_REAL, READING_SECONDS + 1)
    logging.disable(logging.CRITICAL)
    os.nice(NICENESS)
    limit_resources()
    outcome, text = judge(sys.stdin.buffer.read(), most)
    sys.stdout.buffer.write(bytes([outcome]) + text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def judge(data: bytes, most: int) -> tuple[Reading, str]:
    """Read the text of a PDF, or say what kept from it."""
    try:
        text = read_text(data, most)
    except _TooLongError:
        return Reading.TOO_LONG, ""
    except (MemoryError, RecursionError, LimitReachedError):
        return Reading.TOO_COMPLEX, ""
    except (EncryptedError, FileNotDecryptedError, WrongPasswordError, DependencyError):
        return Reading.ENCRYPTED, ""
    except Exception:  # noqa: BLE001 - a damaged file raises whatever it can, and this process must answer
        return Reading.DAMAGED, ""
    return (Reading.READ, text) if text else (Reading.WITHOUT_TEXT, "")


def read_text(data: bytes, most: int) -> str:
    """The pages' text, an empty line between two."""
    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted:
        raise EncryptedError
    pages: list[str] = []
    length = 0
    for page in reader.pages:
        text = page.extract_text().strip()
        if text:
            pages.append(text)
            length += len(text) + 2
        if length > most + 2:
            raise _TooLongError
    return "\n\n".join(pages)
