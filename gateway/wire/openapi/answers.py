"""The words about answers, errors, and the events of an answer in pieces."""

from __future__ import annotations

from gateway.domain.knowledge import MOST_PASSAGES
from gateway.wire.glossary import Wire
from gateway.wire.openapi.words import BRAIN, MODEL, OK, REQUEST_ID, Described
from gateway.wire.replies import (
    AnswerReply,
    ErrorBody,
    ErrorReply,
    MetaReply,
    PageReply,
    SourceReply,
    WebReply,
)
from gateway.wire.sse import SEARCH_TOOL, PieceBody, SearchArguments, SearchedBody, SearchingBody

ANSWERS: dict[type[Wire], Described] = {
    AnswerReply: Described(
        name="Risposta",
        about="La risposta intera: di `/api.php`, e dell'evento `done`.",
        fields={
            "ok": OK,
            "risposta": "Il risultato: sempre una stringa, anche quando contiene JSON.",
            "conversazione": "L'id della conversazione; `null` per una richiesta singola.",
            "meta": "Informazioni di servizio.",
        },
        bounds={"conversazione": {"pattern": "^cnv_"}},
    ),
    MetaReply: Described(
        name="Meta",
        about="Informazioni di servizio. I campi facoltativi ci sono solo quando dicono qualcosa; altri potranno "
        "aggiungersi.",
        fields={
            "progetto": "Come nella richiesta.",
            "encode": "Come nella richiesta.",
            "provider": "Chi ha risposto: `claude`, `openai`, o `prova` in un progetto di prova.",
            "modello": MODEL,
            "durata_ms": "Dall'arrivo della richiesta alla fine della risposta.",
            "versione": BRAIN,
            "troncata": "La risposta ha raggiunto il limite di lunghezza: è incompleta.",
            "cache": "Una richiesta uguale era stata fatta da poco: la risposta è quella, e non si paga.",
            "tentativi": "Quante volte è stato chiamato un provider, se più d'una.",
            "ripiego": "Chi ha risposto al posto della prima scelta: `modello:…` oppure `pepper:…`.",
            "citazioni": "Da dove viene la risposta: c'è se è stato mandato un PDF o si è cercato sul web.",
            "citazioni_spente": "C'era un PDF, ma la forma obbligata ha spento le citazioni.",
            "fonti": "I pezzi dei documenti del progetto messi davanti alla domanda, il più simile per primo.",
            "conoscenza": "La conoscenza è accesa ma non ha risposto: la risposta è senza documenti.",
            "ricerche": "Quante ricerche sul web; si pagano a parte.",
            "documenti_pagine": "Le pagine dei PDF mandati come `dati`, tutti insieme.",
            "idempotente": "È la risposta di prima, ripetuta per la stessa `Idempotency-Key`.",
            "richiesta": "L'id della richiesta che ha prodotto la risposta.",
        },
        bounds={
            "durata_ms": {"minimum": 0},
            "tentativi": {"minimum": 2},
            "ripiego": {"pattern": "^(modello|pepper):"},
            "citazioni_spente": {"const": "schema_json"},
            "fonti": {"minItems": 1, "maxItems": MOST_PASSAGES},
            "conoscenza": {"const": "non_disponibile"},
            "ricerche": {"minimum": 1},
            "documenti_pagine": {"minimum": 1},
            "richiesta": REQUEST_ID,
        },
    ),
    PageReply: Described(
        name="CitazioneDocumento",
        about="Un passo di un PDF allegato.",
        fields={
            "documento": "Il `nome` con cui è stato mandato.",
            "pagina": "La pagina, da 1; di un passo su più pagine la prima.",
            "testo": "Quello che c'è scritto.",
        },
        bounds={"pagina": {"minimum": 1}},
    ),
    WebReply: Described(
        name="CitazioneWeb",
        about="Un passo di una pagina web.",
        fields={
            "url": "L'indirizzo.",
            "titolo": "Il titolo della pagina.",
            "testo": "Quello che c'è scritto.",
        },
    ),
    SourceReply: Described(
        name="Fonte",
        about="Un pezzo di un documento della conoscenza. Il testo non si ripete.",
        fields={
            "documento": "Il nome del documento.",
            "pezzo": "Il numero del pezzo nel documento, da 1.",
            "somiglianza": "Quanto somiglia alla domanda, con due decimali.",
        },
        bounds={"pezzo": {"minimum": 1}, "somiglianza": {"minimum": 0, "maximum": 1}},
    ),
    ErrorReply: Described(
        name="Errore",
        about="Ogni errore, a ogni indirizzo. Si decide dal codice HTTP e da `codice`.",
        fields={"ok": "Sempre `false`.", "errore": "Quale."},
    ),
    ErrorBody: Described(
        name="ErroreDettaglio",
        about="Che cosa è andato storto: in un errore, e nell'evento `error`.",
        fields={
            "codice": "Il codice, dalla tabella degli errori.",
            "messaggio": "Per il log di chi chiama: può cambiare.",
        },
    ),
    PieceBody: Described(
        name="Pezzo",
        about="I dati di `delta`: un pezzo di testo. Tutti insieme danno `risposta`.",
        fields={"text": "Il pezzo."},
    ),
    SearchArguments: Described(
        name="Ricerca",
        about="Che cosa si cerca.",
        fields={"query": "Le parole cercate, scritte dal modello."},
    ),
    SearchingBody: Described(
        name="RicercaIniziata",
        about="I dati di `tool_call`: comincia una ricerca sul web.",
        fields={
            "id": "Lo stesso nel `tool_done` che la chiude.",
            "nome": "Sempre lo stesso.",
            "argomenti": "Che cosa si cerca.",
        },
        bounds={"nome": {"const": SEARCH_TOOL}},
    ),
    SearchedBody: Described(
        name="RicercaFinita",
        about="I dati di `tool_done`: la ricerca è finita, qualunque cosa abbia trovato.",
        fields={"id": "Quello del suo `tool_call`.", "nome": "Sempre lo stesso."},
        bounds={"nome": {"const": SEARCH_TOOL}},
    ),
}
