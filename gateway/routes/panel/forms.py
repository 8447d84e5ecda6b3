"""What a form of the panel brought, as texts."""

from __future__ import annotations

from typing import Any

from litestar import Request
from litestar.datastructures import FormMultiDict, UploadFile

LONGEST = 200_000


class Form:
    """The fields of a submitted form; what is missing is empty."""

    def __init__(self, fields: FormMultiDict) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """A field's text, without blanks around it."""
        return self.secret(name).strip()

    def secret(self, name: str) -> str:
        """A field's text as it was typed."""
        value = self._fields.get(name)
        return value[:LONGEST] if isinstance(value, str) else ""

    def whole(self, name: str) -> str:
        """A field's text however long it is, its lines ended as everywhere but in forms."""
        value = self._fields.get(name)
        return value.replace("\r\n", "\n") if isinstance(value, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """All values of a field (check boxes of one name)."""
        return tuple(value for value in self._fields.getall(name, []) if isinstance(value, str))

    def on(self, name: str) -> bool:
        """Whether a check box is on."""
        return bool(self.text(name))

    def file(self, name: str) -> UploadFile | None:
        """An uploaded file; None when none was chosen."""
        value = self._fields.get(name)
        return value if isinstance(value, UploadFile) and value.filename else None

    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return tuple(self._fields)


async def read_form(request: Request[Any, Any, Any]) -> Form:
    """Read a request's form."""
    return Form(await request.form())
