"""Bodies and headers of partners, decoded into the domain.

Every refusal is a `Failure` with the contract's code and a text that names the field; nothing else is raised,
whatever the bytes are.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, TypeVar

import msgspec

from gateway.domain.completion import Attachment, CompletionRequest
from gateway.domain.errors import CONTENT_TOO_LARGE, INVALID_REQUEST, Failure
from gateway.domain.limits import (
    MAX_CONTENT_CHARACTERS,
    MAX_DEFERRED_CONTENTS,
    MAX_IDEMPOTENCY_KEY_CHARACTERS,
)
from gateway.wire.glossary import Wire
from gateway.wire.mistakes import what_it_is

MODES = ("subito", "differito")

Body = TypeVar("Body", bound=Wire)

_PRINTABLE_ASCII = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_AT_PATH = re.compile(r"at `\$\.?([^`]*)`")
_TYPES = {
    "str": "una stringa",
    "int": "un numero intero",
    "bool": "un booleano",
    "object": "un oggetto",
    "array": "un elenco",
    "null": "null",
}


class Envelope(msgspec.Struct, frozen=True):
    """A body known to be a JSON object with a string `progetto`; the rest is not looked at yet."""

    project: str
    fields: dict[str, Any]


class ProjectBody(Wire, frozen=True, kw_only=True):
    """What every body says, and all that `/capacita.php` wants."""

    project: str


class AttachmentBody(Wire, frozen=True, kw_only=True):
    """One entry of `documenti`."""

    name: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class CompletionBody(ProjectBody, frozen=True, kw_only=True):
    """The fields of `/api.php`."""

    recipe: str
    content: str | None = None
    contents: list[str] | None = None
    conversation: str | None = None
    extra: dict[str, Any] | None = None
    attachments: list[AttachmentBody] | None = None
    mode: str | None = None
    stream: bool | None = None


def open_envelope(body: bytes) -> Envelope:
    """Read a body as a JSON object that names its project.

    Raises:
        Failure: 400 when it is not JSON in UTF-8, not an object, or `progetto` is not a string.

    """
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _invalid(what_it_is(body)) from None
    except RecursionError:
        raise _invalid("Il corpo della richiesta è annidato troppo in profondità.") from None
    if isinstance(fields, str):
        raise _invalid(
            "Il corpo della richiesta è una stringa JSON e deve essere un oggetto: "
            "forse è passato due volte da json_encode()."
        )
    if not isinstance(fields, dict):
        raise _invalid("Il corpo della richiesta deve essere un oggetto JSON.")
    return Envelope(read_fields(fields, ProjectBody).project, fields)


def decode_completion(envelope: Envelope, idempotency_keys: list[str]) -> CompletionRequest:
    """Decode a request to `/api.php`; `idempotency_keys` are the values of all `Idempotency-Key` headers.

    Raises:
        Failure: 400 with the field's name, or 413 when a content is too long.

    """
    body = read_fields(envelope.fields, CompletionBody)
    mode = body.mode or "subito"
    if mode not in MODES:
        raise _invalid('Il campo \'modo\' vale "subito" oppure "differito".')
    deferred = mode == "differito"
    stream = bool(body.stream)
    if deferred and stream:
        raise _invalid('La risposta a pezzi (\'stream\') non si usa con "modo": "differito".')
    if deferred and body.conversation is not None:
        raise _invalid("Il lavoro differito non ha conversazioni: togli il campo 'conversazione'.")
    contents = _contents(body, deferred=deferred)
    attachments = tuple(_attachment(entry) for entry in body.attachments or ())
    if attachments and body.contents is not None:
        raise _invalid("Gli allegati si mettono su un 'contenuto' alla volta, non insieme a 'contenuti'.")
    key = None if deferred else _idempotency_key(idempotency_keys)
    return CompletionRequest(
        project=envelope.project,
        recipe=body.recipe,
        content=contents[0] if body.contents is None else "",
        contents=contents if body.contents is not None else (),
        conversation=body.conversation,
        extra=body.extra or {},
        attachments=attachments,
        deferred=deferred,
        stream=stream,
        idempotency_key=key,
        # Of large attachments it takes a tenth of a second, in which nobody else is served.
        fingerprint="" if key is None else _fingerprint(body),
    )


def read_fields(fields: dict[str, Any], kind: type[Body]) -> Body:
    """Read the fields that a body of this kind has, and pass over the others.

    Raises:
        Failure: 400 with the field's name.

    """
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise _invalid(_field_message(str(error))) from None


def _contents(body: CompletionBody, *, deferred: bool) -> tuple[str, ...]:
    if body.contents is None:
        if body.content is None:
            raise _invalid("Manca il campo obbligatorio 'contenuto'.")
        _check_content(body.content, "contenuto")
        return (body.content,)
    if body.content is not None:
        raise _invalid("I campi 'contenuto' e 'contenuti' non si usano insieme.")
    if not deferred:
        raise _invalid('Il campo \'contenuti\' si usa solo con "modo": "differito".')
    if not 1 <= len(body.contents) <= MAX_DEFERRED_CONTENTS:
        raise _invalid(f"Il campo 'contenuti' vuole da 1 a {MAX_DEFERRED_CONTENTS} testi.")
    for index, content in enumerate(body.contents):
        _check_content(content, f"contenuti[{index}]")
    return tuple(body.contents)


def _check_content(content: str, field: str) -> None:
    if len(content) > MAX_CONTENT_CHARACTERS:
        raise Failure(
            CONTENT_TOO_LARGE,
            f"Il campo '{field}' ha {len(content)} caratteri: il massimo è {MAX_CONTENT_CHARACTERS}.",
        )
    if not content or content.isspace():
        raise _invalid(f"Il campo '{field}' è vuoto.")


def _attachment(entry: AttachmentBody) -> Attachment:
    if (entry.data is None) == (entry.url is None):
        raise _invalid("Ogni voce di 'documenti' vuole 'nome' e uno solo fra 'dati' e 'url'.")
    return Attachment(name=entry.name, media_type=entry.media_type, data=entry.data, url=entry.url)


def _idempotency_key(values: list[str]) -> str | None:
    if not values:
        return None
    if (
        len(values) > 1
        or len(values[0]) > MAX_IDEMPOTENCY_KEY_CHARACTERS
        or not _PRINTABLE_ASCII.fullmatch(values[0])
    ):
        raise _invalid(
            "L'intestazione Idempotency-Key vuole un solo valore, "
            f"da 1 a {MAX_IDEMPOTENCY_KEY_CHARACTERS} caratteri ASCII stampabili."
        )
    return values[0]


def _fingerprint(body: CompletionBody) -> str:
    known = {
        name: value
        for name, value in msgspec.to_builtins(body).items()
        if value not in (None, {}, []) and name != "stream"
    }
    return hashlib.sha256(msgspec.json.encode(known, order="sorted")).hexdigest()


def _field_message(error: str) -> str:
    """Say in Italian what msgspec says in English, naming the field."""
    missing = re.search(r"missing required field `([^`]+)`", error)
    place = _AT_PATH.search(error)
    path = place.group(1) if place else ""
    if "got `null`" in error and not path.endswith("]"):  # as good as left out, but it must be there
        return f"Manca il campo obbligatorio '{path}'."
    if missing:
        return f"Manca il campo obbligatorio '{f'{path}.' if path else ''}{missing.group(1)}'."
    expected = re.search(r"Expected `([^`]+)`", error)
    wanted = (
        [_TYPES.get(name.strip(), name.strip()) for name in expected.group(1).split("|")] if expected else []
    )
    wanted = [name for name in wanted if name != "null"]
    if not wanted:
        return f"Il campo '{path}' non è valido."
    return f"Il campo '{path}' deve essere {' oppure '.join(wanted)}."


def _invalid(note: str) -> Failure:
    return Failure(INVALID_REQUEST, note)
