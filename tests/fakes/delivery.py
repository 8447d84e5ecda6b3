"""Puts a scripted behaviour on the wire, well or badly: pieces, delays, cuts, resets and silences."""

import asyncio
import socket
import struct
from collections.abc import Callable

from aiohttp import web

from tests.fakes.behaviours import Answer, Behaviour, Drop, Ending, Hang, Reply, Text, pieces_of
from tests.fakes.endpoint import Dialect, Endpoint
from tests.fakes.seen import Outcome, RefusalError, Seen

# Time for the client to read what was sent before a reset makes the kernel throw it away.
_SETTLE = 0.02
_BLOCK = 262_144


class Delivery:
    """One response to one request."""

    def __init__(
        self,
        request: web.BaseRequest,
        seen: Seen,
        endpoint: Endpoint,
        dialect: Dialect,
        *,
        request_id: str,
        end: Callable[[Outcome], None],
    ) -> None:
        self._request = request
        self._seen = seen
        self._endpoint = endpoint
        self._dialect = dialect
        self._id = request_id
        self._end = end
        self._fate: Outcome = "answered"

    async def perform(self, behaviour: Behaviour) -> web.StreamResponse:
        if isinstance(behaviour, Answer):
            return await self._answer(behaviour)
        if isinstance(behaviour, Reply):
            return await self._reply(behaviour)
        if isinstance(behaviour, Hang):
            await asyncio.sleep(behaviour.seconds)
        return self._abort(reset=isinstance(behaviour, Drop))

    async def refuse(self, refusal: RefusalError) -> web.StreamResponse:
        self._fate = "refused"
        return await self._error(refusal)

    async def _error(self, error: RefusalError) -> web.StreamResponse:
        return await self._send(error.status, self._dialect.error(error, self._id), "application/json")

    async def _reply(self, reply: Reply) -> web.StreamResponse:
        await asyncio.sleep(reply.first_delay)
        body = reply.body
        if reply.stream_body is not None and self._endpoint.streams(self._seen):
            return await self._send(reply.status, reply.stream_body, "text/event-stream", dict(reply.headers))
        if body is None:
            error = RefusalError(reply.status, reply.message, kind=reply.kind, code=reply.code)
            body = self._dialect.error(error, self._id)
        return await self._send(reply.status, body, reply.content_type, dict(reply.headers))

    async def _answer(self, answer: Answer) -> web.StreamResponse:
        await asyncio.sleep(answer.first_delay)
        if self._endpoint.streams(self._seen):
            return await self._stream(answer)
        return await self._whole(answer)

    # Streamed

    async def _stream(self, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers=self._headers("text/event-stream; charset=utf-8"))
        response.headers["cache-control"] = "no-cache"
        self._seen.status = 200
        await response.prepare(self._request)
        if answer.chunk is not None:
            body = b"".join(frame.data for frame in self._endpoint.frames(answer, self._seen))
            return await self._drip(response, body, answer.chunk, answer.delay)
        sent = 0
        frames = list(self._endpoint.frames(answer, self._seen))
        for number, frame in enumerate(frames, start=1):
            if answer.ending is not None and _is_over(answer.ending, sent, frame.piece):
                return await self._break_off(response, answer.ending)
            if frame.piece:
                await asyncio.sleep(answer.delay if sent else answer.text_delay)
                sent += 1
            if number == len(frames):
                self._end(self._fate)
            await response.write(frame.data)
        return await self._close(response)

    async def _break_off(self, response: web.StreamResponse, ending: Ending) -> web.StreamResponse:
        if ending.how == "cut":
            await asyncio.sleep(_SETTLE)
            return self._abort(reset=ending.reset)
        if ending.how == "error":
            self._end(self._fate)
            await response.write(self._dialect.error_event(ending.kind, ending.message, self._id))
        return await self._close(response)

    # In one body

    async def _whole(self, answer: Answer) -> web.StreamResponse:
        ending = answer.ending
        if ending is not None and ending.how == "error":
            refusal = RefusalError(self._dialect.status_of(ending.kind), ending.message, kind=ending.kind)
            return await self._error(refusal)
        pauses = max(0, _piece_count(answer) - 1)
        body = self._endpoint.whole(answer, self._seen)
        await asyncio.sleep(answer.text_delay)
        if answer.chunk is not None or answer.drip:
            response = await self._open(len(body))
            size = answer.chunk or -(-len(body) // (pauses + 1))
            return await self._drip(response, body, size, answer.delay)
        await asyncio.sleep(answer.delay * pauses)
        if ending is None:
            return await self._send(200, body, "application/json")
        part = body[: len(body) * ending.after // (ending.after + 1)]
        if ending.how == "quiet":
            return await self._send(200, part, "application/json")
        response = await self._open(len(body))
        if part:
            await response.write(part)
        await asyncio.sleep(_SETTLE)
        return self._abort(reset=ending.reset)

    async def _open(self, length: int) -> web.StreamResponse:
        response = web.StreamResponse(headers=self._headers("application/json"))
        response.content_length = length
        self._seen.status = 200
        await response.prepare(self._request)
        return response

    async def _drip(
        self, response: web.StreamResponse, body: bytes, size: int, delay: float
    ) -> web.StreamResponse:
        for start in range(0, len(body), size):
            if start:
                await asyncio.sleep(delay)
            if start + size >= len(body):
                self._end(self._fate)
            await response.write(body[start : start + size])
        return await self._close(response)

    # Ends

    async def _send(
        self, status: int, body: bytes, content_type: str, extra: dict[str, str] | None = None
    ) -> web.StreamResponse:
        headers = self._headers(content_type) | (extra or {})
        self._seen.status = status
        if len(body) > _BLOCK:
            # In blocks, so that a client that has had enough is noticed.
            large = web.StreamResponse(status=status, headers=headers)
            large.content_length = len(body)
            await large.prepare(self._request)
            return await self._drip(large, body, _BLOCK, 0)
        response = web.Response(status=status, body=body, headers=headers)
        await response.prepare(self._request)
        return await self._close(response)

    async def _close(self, response: web.StreamResponse) -> web.StreamResponse:
        # The fate is told before the last bytes are: a client that has them may look at once.
        self._end(self._fate)
        await response.write_eof()
        return response

    def _abort(self, *, reset: bool) -> web.StreamResponse:
        self._end("cut")
        transport = self._request.transport
        if transport is not None:
            sock = transport.get_extra_info("socket")
            if reset and sock is not None:
                # A lingering time of zero makes the kernel send RST instead of FIN.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        # Nobody is left to read this: aiohttp only wants a response object back.
        return web.Response()

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"content-type": content_type, self._dialect.request_id_header: self._id}


def _is_over(ending: Ending, sent: int, is_piece: bool) -> bool:
    """The next frame is not sent any more: a piece too many, or the closing events after the last one."""
    return sent >= ending.after and (is_piece or sent > 0)


def _piece_count(answer: Answer) -> int:
    return sum(len(pieces_of(answer, part.text)) for part in answer.parts if isinstance(part, Text))
