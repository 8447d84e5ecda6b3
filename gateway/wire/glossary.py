"""English names in the code, Italian names on the wire: one dictionary between them.

A struct that derives from `Wire` declares English fields; the wire shows the contract's words. A struct whose word
differs from the dictionary's says so with `rename=words(...)`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

GLOSSARY: dict[str, str] = {
    "answers": "risposte",
    "attachments": "documenti",
    "attempts": "tentativi",
    "brain": "versione",
    "cached": "cache",
    "characters": "caratteri",
    "citations": "citazioni",
    "citations_off": "citazioni_spente",
    "code": "codice",
    "content": "contenuto",
    "contents": "contenuti",
    "conversation": "conversazione",
    "data": "dati",
    "description": "descrizione",
    "document": "documento",
    "documents": "documenti",
    "duration_ms": "durata_ms",
    "error": "errore",
    "fallback": "ripiego",
    "knowledge": "conoscenza",
    "level": "livello",
    "limits": "limiti",
    "media_type": "tipo",
    "message": "messaggio",
    "mode": "modo",
    "model": "modello",
    "models": "modelli",
    "name": "nome",
    "news": "novita",
    "note": "nota",
    "page": "pagina",
    "pages": "documenti_pagine",
    "passage": "pezzo",
    "passages": "pezzi",
    "project": "progetto",
    "reasoning": "ragionamento",
    "recipe": "encode",
    "recipes": "ricette",
    "replaced": "sostituito",
    "replayed": "idempotente",
    "request_id": "richiesta",
    "searches": "ricerche",
    "similarity": "somiglianza",
    "sources": "fonti",
    "spending": "spesa",
    "text": "risposta",
    "title": "titolo",
    "truncated": "troncata",
    "uploaded_at": "caricato_il",
    "voice": "voce_nelle_app",
}
"""Field name in the code → word of the contract. Names that are the same in both are not listed."""


def words(**exceptions: str) -> Callable[[str], str]:
    """Give a renaming by the glossary, with a struct's own exceptions."""

    def rename(name: str) -> str:
        return exceptions.get(name) or GLOSSARY.get(name, name)

    return rename


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename=words()):
    """Base of every struct that crosses the wire."""
