"""The words about what partners send."""

from __future__ import annotations

from gateway.domain import limits
from gateway.domain.knowledge import MAX_DOCUMENT_CHARACTERS, MAX_DOCUMENT_NAME
from gateway.wire.batches import NumberBody
from gateway.wire.glossary import Wire
from gateway.wire.knowledge import Listing, Removal, Upload
from gateway.wire.openapi.words import NOT_BLANK, Described
from gateway.wire.requests import MODES, AttachmentBody, CompletionBody, ProjectBody

_PROJECT = "Il progetto che chiama: la chiave deve essere sua."
_DEFERRED = MODES[1]
_UNFIT = r"\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069"
"""Characters that a document's name does not take."""

REQUESTS: dict[type[Wire], Described] = {
    ProjectBody: Described(
        name="RichiestaProgetto",
        about="Dice soltanto di quale progetto si tratta.",
        fields={"progetto": _PROJECT},
        reply=False,
    ),
    CompletionBody: Described(
        name="Richiesta",
        about="Un lavoro per Pepper. Un campo facoltativo a `null` vale come assente; i campi che Pepper non conosce "
        "sono ignorati.",
        fields={
            "progetto": _PROJECT,
            "encode": "La ricetta da applicare. Maiuscole e minuscole contano.",
            "contenuto": "Il testo su cui lavorare, non solo spazi. Serve anche insieme a `documenti`.",
            "contenuti": "Più testi in una volta, al posto di `contenuto`: solo in differito.",
            "conversazione": '`"nuova"` apre una conversazione, un id la prosegue. Assente: richiesta singola.',
            "extra": "I parametri della ricetta; quelli che non conosce sono ignorati.",
            "documenti": "PDF e foto da leggere insieme al testo.",
            "modo": '`"subito"` (predefinito) oppure `"differito"`: metà prezzo, la risposta si ritira più tardi.',
            "stream": "`true`: la risposta arriva a pezzi, mentre viene scritta.",
        },
        bounds={
            "contenuto": NOT_BLANK | {"maxLength": limits.MAX_CONTENT_CHARACTERS},
            "contenuti": {
                "items": {"type": "string"} | NOT_BLANK | {"maxLength": limits.MAX_CONTENT_CHARACTERS},
                "minItems": 1,
                "maxItems": limits.MAX_DEFERRED_CONTENTS,
            },
            "documenti": {"maxItems": limits.MAX_ATTACHMENTS},
            "modo": {"enum": [*MODES, None]},
        },
        rules={
            "oneOf": [
                {
                    "title": "Un testo",
                    "required": ["contenuto"],
                    "properties": {"contenuto": {"type": "string"}, "contenuti": {"type": "null"}},
                },
                {
                    "title": "Più testi, in differito",
                    "required": ["contenuti", "modo"],
                    "properties": {
                        "contenuti": {"type": "array"},
                        "contenuto": {"type": "null"},
                        "modo": {"const": _DEFERRED},
                        "documenti": {"maxItems": 0},
                    },
                },
            ],
            "if": {"required": ["modo"], "properties": {"modo": {"const": _DEFERRED}}},
            "then": {"properties": {"stream": {"enum": [False, None]}, "conversazione": {"type": "null"}}},
        },
        reply=False,
    ),
    AttachmentBody: Described(
        name="Allegato",
        about="Un PDF o una foto: `dati` oppure `url`, mai tutti e due.",
        fields={
            "nome": "Il nome, come appare nelle citazioni e nelle conversazioni.",
            "tipo": "Il tipo del file; conta solo per un `url` la cui fine non dice niente.",
            "dati": "Il file in base64.",
            "url": "Un indirizzo `https://` da cui lo scarica il provider.",
        },
        bounds={
            "nome": NOT_BLANK | {"maxLength": limits.MAX_ATTACHMENT_NAME_CHARACTERS},
            "url": {"maxLength": limits.MAX_ADDRESS_CHARACTERS, "pattern": "^[Hh][Tt][Tt][Pp][Ss]://"},
        },
        rules={
            "oneOf": [
                {
                    "title": "Il file",
                    "required": ["dati"],
                    "properties": {"dati": {"type": "string"}, "url": {"type": "null"}},
                },
                {
                    "title": "Un indirizzo",
                    "required": ["url"],
                    "properties": {"url": {"type": "string"}, "dati": {"type": "null"}},
                },
            ]
        },
        reply=False,
    ),
    NumberBody: Described(
        name="RichiestaPratica",
        about="Chiede di una pratica.",
        fields={"progetto": _PROJECT, "pratica": "Il numero che era sulla ricevuta."},
        reply=False,
    ),
    Upload: Described(
        name="Carica",
        about="Carica un documento, o lo mette al posto di quello con lo stesso nome.",
        fields={
            "progetto": _PROJECT,
            "nome": "Il nome del documento, senza contare gli spazi attorno. Maiuscole e minuscole contano.",
            "testo": "Il testo, anche in Markdown. Di un PDF si manda il testo.",
        },
        bounds={
            # Blanks around it don't count, so a longer one may do
            "nome": {
                "pattern": rf"^\s*[^\s{_UNFIT}](?:[^{_UNFIT}]{{0,{MAX_DOCUMENT_NAME - 2}}}[^\s{_UNFIT}])?\s*$"
            },
            "testo": NOT_BLANK | {"maxLength": MAX_DOCUMENT_CHARACTERS},
        },
        reply=False,
    ),
    Listing: Described(
        name="Elenco", about="Elenca i documenti del progetto.", fields={"progetto": _PROJECT}, reply=False
    ),
    Removal: Described(
        name="Togli",
        about="Toglie un documento.",
        fields={"progetto": _PROJECT, "documento": "L'`id` del documento."},
        reply=False,
    ),
}
"""By struct, in the order in which they are met."""
