"""Server-sent events, parsed from bytes cut anywhere: whatever the cuts, the same events come out."""

from __future__ import annotations

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventParser:
    """Yields the `data` of each event; event names, ids and comments say nothing that the providers' data doesn't.

    Lines end with CRLF, LF or CR. An event that the end of the stream leaves open is none.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        """The line begun so far, in parts: joined only when its end comes, so that a long line costs no more."""
        self._data: list[bytes] = []
        self._held = b""
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take more bytes and give the events they complete."""
        chunk = self._held + chunk
        self._held = b""
        if chunk.endswith(b"\r"):
            # Half of a CRLF, perhaps: the next bytes tell.
            self._held = b"\r"
            chunk = chunk[:-1]
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._parts.append(chunk)
            return []
        lines = chunk.split(b"\n")
        lines[0] = b"".join((*self._parts, lines[0]))
        self._parts = [lines.pop()]
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line == b"data":
                data.append(b"")
        return events
