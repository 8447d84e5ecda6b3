"""The words about a project's own documents."""

from __future__ import annotations

from gateway.wire.glossary import Wire
from gateway.wire.knowledge import DocumentReply, RemovedReply, ShelfReply, UploadedReply
from gateway.wire.openapi.words import DATE, OK, Described

KNOWLEDGE: dict[type[Wire], Described] = {
    UploadedReply: Described(
        name="DocumentoCaricato",
        about="Il documento è dentro.",
        fields={
            "ok": OK,
            "id": "Il suo `id`: resta lo stesso quando viene sostituito.",
            "nome": "Il nome.",
            "pezzi": "In quanti pezzi è stato tagliato.",
            "sostituito": "Se ha preso il posto di uno con lo stesso nome.",
        },
        bounds={"pezzi": {"minimum": 1}},
    ),
    ShelfReply: Described(
        name="DocumentiElencati",
        about="I documenti del progetto, in ordine di `id`.",
        fields={"ok": OK, "documenti": "I documenti.", "pezzi": "I pezzi di tutti insieme."},
    ),
    DocumentReply: Described(
        name="Documento",
        about="Un documento della conoscenza.",
        fields={
            "id": "Il suo `id`.",
            "nome": "Il nome.",
            "pezzi": "In quanti pezzi è tagliato.",
            "caratteri": "Caratteri del testo.",
            "caricato_il": "Quando, nell'ora del gateway.",
        },
        bounds={"pezzi": {"minimum": 1}, "caratteri": {"minimum": 1}, "caricato_il": DATE},
    ),
    RemovedReply: Described(name="DocumentoTolto", about="Il documento non c'è più.", fields={"ok": OK}),
}
