"""A form with files, as `multipart/form-data`; what is not one is refused."""

import re
from typing import NamedTuple

from tests.fakes.seen import RefusalError, Seen

_BOUNDARY = re.compile(r'multipart/form-data;\s*boundary="?([^";]{1,70})"?$')
_DISPOSITION = re.compile(r'form-data; name="(?P<name>[^"]*)"(?:; filename="(?P<filename>[^"]*)")?')


class FormPart(NamedTuple):
    content: bytes
    filename: str | None


def parts_of(seen: Seen) -> dict[str, FormPart]:
    """The parts by their names, each of which occurs once."""
    boundary = _BOUNDARY.match(seen.headers.get("content-type", ""))
    if boundary is None:
        raise RefusalError(400, "expected content-type multipart/form-data with a boundary")
    first, *parts = (b"\r\n" + seen.raw).split(b"\r\n--" + boundary[1].encode())
    if first or not parts or parts.pop().strip() != b"--":
        raise RefusalError(400, "the form does not begin and end with its boundary")
    found: dict[str, FormPart] = {}
    for part in parts:
        head, separator, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        disposition = _DISPOSITION.search(head.decode())
        if not separator or disposition is None or disposition["name"] in found:
            raise RefusalError(400, "a part of the form has no name of its own")
        found[disposition["name"]] = FormPart(content, disposition["filename"])
    return found
