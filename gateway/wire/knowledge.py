"""The knowledge base on the wire: the actions of `/conoscenza.php`, their replies, and what `/capacita.php` tells of it."""

from __future__ import annotations

from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from gateway.domain.errors import CONTENT_TOO_LARGE, INVALID_REQUEST, Failure
from gateway.domain.knowledge import (
    MAX_DOCUMENT_CHARACTERS,
    MAX_DOCUMENT_NAME,
    KnowledgeState,
    Shelf,
    Uploaded,
    blank,
    unfit_name,
)
from gateway.wire.batches import local_time
from gateway.wire.glossary import Wire, words
from gateway.wire.requests import Envelope, ProjectBody, read_fields

READERS = {
    "openai": "Gli indici li fa OpenAI: i testi caricati e le domande passano anche da OpenAI.",
    "locale": "Gli indici si fanno su questo server: i testi caricati non passano da OpenAI.",
    "prova": "Progetto di prova: l'indice confronta le parole, e i testi restano su questo server.",
}
"""Who reads the texts, by the reader's provider."""
WITHOUT_KEY = "Manca la chiave OpenAI: non si può caricare, e le risposte arrivano senza documenti."
WITHOUT_READER = (
    "Chi fa gli indici non è installato: non si può caricare, e le risposte arrivano senza documenti."
)


_words = words(action="azione", text="testo")


class ActionBody(ProjectBody, frozen=True, kw_only=True, rename=_words):
    """What every body of `/conoscenza.php` says."""

    action: str


class Upload(ProjectBody, frozen=True, kw_only=True, tag_field="azione", tag="carica", rename=_words):
    """Take a document in, or put it in the place of the one of the same name."""

    name: str
    text: str


class Listing(ProjectBody, frozen=True, kw_only=True, tag_field="azione", tag="elenco", rename=_words):
    """Tell what there is."""


class Removal(ProjectBody, frozen=True, kw_only=True, tag_field="azione", tag="togli", rename=_words):
    """Take a document out."""

    document: int


Action: TypeAlias = Upload | Listing | Removal
ACTIONS: dict[str, type[Action]] = {"carica": Upload, "elenco": Listing, "togli": Removal}


class UploadedReply(Wire, frozen=True, kw_only=True):
    """A document is in."""

    ok: Literal[True] = True
    id: int
    name: str
    passages: int
    replaced: bool


class DocumentReply(Wire, frozen=True, kw_only=True):
    """One entry of `documenti`."""

    id: int
    name: str
    passages: int
    characters: int
    uploaded_at: str


class ShelfReply(Wire, frozen=True, kw_only=True):
    """What there is, and its passages all together."""

    ok: Literal[True] = True
    documents: tuple[DocumentReply, ...]
    passages: int


class RemovedReply(Wire, frozen=True, kw_only=True):
    """A document is out."""

    ok: Literal[True] = True


class KnowledgeReply(Wire, frozen=True, kw_only=True):
    """`conoscenza` of `/capacita.php`."""

    documents: int
    passages: int
    note: str


def decode_action(envelope: Envelope) -> Action:
    """Read what is wanted.

    Raises:
        Failure: 400 with the field's name, or 413 when the text is too long.

    """
    kind = ACTIONS.get(read_fields(envelope.fields, ActionBody).action)
    if kind is None:
        told = ", ".join(f'"{name}"' for name in ACTIONS)
        raise _invalid(f"Il campo 'azione' vale uno di questi: {told}.")
    action: Action = read_fields(envelope.fields, kind)
    return _checked(action) if isinstance(action, Upload) else action


def encode_uploaded(uploaded: Uploaded) -> bytes:
    """Encode the reply of `carica`."""
    document = uploaded.document
    return msgspec.json.encode(
        UploadedReply(
            id=document.id, name=document.name, passages=document.passages, replaced=uploaded.replaced
        )
    )


def encode_shelf(shelf: Shelf, zone: ZoneInfo) -> bytes:
    """Encode the reply of `elenco`; dates in the given time zone."""
    documents = tuple(
        DocumentReply(
            id=document.id,
            name=document.name,
            passages=document.passages,
            characters=document.characters,
            uploaded_at=local_time(document.uploaded_at, zone),
        )
        for document in shelf.documents
    )
    return msgspec.json.encode(ShelfReply(documents=documents, passages=shelf.passages))


def encode_removed() -> bytes:
    """Encode the reply of `togli`."""
    return msgspec.json.encode(RemovedReply())


def state_reply(state: KnowledgeState | None) -> KnowledgeReply | None:
    """Give the wire form of what a project's knowledge is."""
    if state is None:
        return None
    return KnowledgeReply(documents=state.documents, passages=state.passages, note=knowledge_note(state))


def knowledge_note(state: KnowledgeState) -> str:
    """Say who reads the texts, and what does not work as it should."""
    sentences = [READERS[state.reader]]
    if not state.ready:
        sentences.append(WITHOUT_KEY if state.reader == "openai" else WITHOUT_READER)
    if state.outdated == 1:
        sentences.append(
            "Un documento manca dall'indice e non si cerca: va ricaricato, o rifatto dal gestore."
        )
    elif state.outdated:
        sentences.append(
            f"{state.outdated} documenti mancano dall'indice e non si cercano: vanno ricaricati, o rifatti dal gestore."
        )
    return " ".join(sentences)


def _checked(upload: Upload) -> Upload:
    name, text = upload.name.strip(), upload.text
    if not 1 <= len(name) <= MAX_DOCUMENT_NAME:
        raise _invalid(f"Il campo 'nome' vuole da 1 a {MAX_DOCUMENT_NAME} caratteri, non solo spazi.")
    if unfit_name(name):
        raise _invalid(
            "Il campo 'nome' non vuole caratteri di controllo, né quelli che cambiano la direzione della scrittura."
        )
    if len(text) > MAX_DOCUMENT_CHARACTERS:
        raise Failure(
            CONTENT_TOO_LARGE,
            f"Il campo 'testo' ha {len(text)} caratteri: il massimo è {MAX_DOCUMENT_CHARACTERS}.",
        )
    if blank(text):
        raise _invalid("Il campo 'testo' è vuoto.")
    return msgspec.structs.replace(upload, name=name)


def _invalid(note: str) -> Failure:
    return Failure(INVALID_REQUEST, note)
