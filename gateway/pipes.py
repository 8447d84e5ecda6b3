"""What is written to processes of our own, which may be gone by then: that is a `BrokenPipeError` under every loop."""

from __future__ import annotations

from asyncio import StreamWriter
from asyncio.subprocess import Process


def put(pipe: StreamWriter, data: bytes) -> None:
    """Write to a process.

    Raises:
        BrokenPipeError: It has ended. (`drain` raises other `OSError`s for one that ends meanwhile.)

    """
    try:
        pipe.write(data)
    except RuntimeError as error:  # uvloop's word for it
        raise BrokenPipeError from error


async def converse(process: Process, data: bytes) -> tuple[bytes, bytes]:
    """Give a process all there is to say, and return its output and its complaints when it has ended.

    Raises:
        BrokenPipeError: It ended before it was asked.

    """
    try:
        return await process.communicate(data)
    except RuntimeError as error:  # likewise
        raise BrokenPipeError from error
