"""Decoding of a JSON request body, with the refusals that come before any rule about its content."""

import msgspec

from tests.fakes.seen import RefusalError, Seen


def decode_json(seen: Seen, not_json: str, wrong_type: str) -> None:
    """Fills `seen.body`; the bytes are let go, a request may be large."""
    media = seen.headers.get("content-type", "").split(";")[0].strip().lower()
    if media != "application/json":
        raise RefusalError(400, wrong_type)
    try:
        seen.body = msgspec.json.decode(seen.raw)
    except msgspec.DecodeError as error:
        raise RefusalError(400, f"{not_json}: {error}") from error
    seen.raw = b""
    if not isinstance(seen.body, dict):
        raise RefusalError(400, "Input should be a valid dictionary")
