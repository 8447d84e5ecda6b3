"""The words about deferred work: its receipt, its state, and the notice of its end."""

from __future__ import annotations

from gateway.domain import limits
from gateway.domain.batches import BatchState
from gateway.wire.batches import AnswerItem, FailureItem, ReceiptMeta, ReceiptReply, StateMeta, StateReply
from gateway.wire.glossary import Wire
from gateway.wire.notices import NoticeBody
from gateway.wire.openapi.words import BRAIN, DATE, MODEL, NUMBER, OK, REQUEST_ID, Described

_STATES = {"enum": [state.value for state in BatchState]}
_STATE = "`in_corso`, `pronta` (almeno un testo ha la risposta), `fallita` (nessuno), `scaduta`."

DEFERRED: dict[type[Wire], Described] = {
    ReceiptReply: Described(
        name="Ricevuta",
        about="Un lavoro differito preso in carico, e non ancora fatto.",
        fields={
            "ok": OK,
            "risposta": "Sempre `null`: la risposta si ritira.",
            "pratica": "Il numero: è la ricevuta, va conservato. Non c'è altro modo di arrivare alle risposte.",
            "stato": "Sempre `in_corso`.",
            "quanti": "Quanti testi.",
            "meta": "Informazioni di servizio.",
        },
        bounds={
            "pratica": NUMBER,
            "stato": {"const": BatchState.RUNNING.value},
            "quanti": {"minimum": 1, "maximum": limits.MAX_DEFERRED_CONTENTS},
        },
    ),
    ReceiptMeta: Described(
        name="RicevutaMeta",
        about="Informazioni di servizio di una ricevuta.",
        fields={
            "differito": OK,
            "modello": MODEL,
            "versione": BRAIN,
            "richiesta": "L'id della richiesta.",
        },
        bounds={"richiesta": REQUEST_ID},
    ),
    StateReply: Described(
        name="Pratica",
        about="A che punto è una pratica, con le risposte quando è finita.",
        fields={
            "ok": OK,
            "pratica": "Il numero.",
            "stato": _STATE,
            "quanti": "Quanti testi.",
            "risposte": "Una voce per ogni testo, nell'ordine dei testi; non c'è finché è `in_corso`.",
            "risposta": "Di un testo solo, la sua risposta anche qui; `null` se non ce n'è.",
            "meta": "Informazioni di servizio.",
        },
        bounds={"pratica": NUMBER, "stato": _STATES, "quanti": {"minimum": 1}},
    ),
    StateMeta: Described(
        name="PraticaMeta",
        about="Informazioni di servizio di una pratica.",
        fields={
            "differito": OK,
            "creato_il": "Quando è stata presa in carico, nell'ora del gateway.",
            "versione": BRAIN,
        },
        bounds={"creato_il": DATE},
    ),
    AnswerItem: Described(
        name="TestoRisposto",
        about="Un testo che ha la risposta.",
        fields={
            "ok": OK,
            "risposta": "La risposta.",
            "troncata": "La risposta ha raggiunto il limite di lunghezza: è incompleta.",
            "citazioni": "Con un PDF: da dove viene la risposta, come in `meta.citazioni`.",
        },
        bounds={"ok": {"const": True}},
    ),
    FailureItem: Described(
        name="TestoFallito",
        about="Un testo senza risposta: non si paga.",
        fields={"ok": "Sempre `false`.", "errore": "Perché, in una frase."},
    ),
    NoticeBody: Described(
        name="Avviso",
        about="Una pratica è finita. Le risposte non ci sono: si ritirano.",
        fields={
            "pratica": "Il numero.",
            "progetto": "Di quale progetto.",
            "stato": "`pronta`, `fallita` o `scaduta`.",
            "quanti": "Quanti testi.",
        },
        bounds={
            "pratica": NUMBER,
            "stato": {"enum": [state.value for state in BatchState if state is not BatchState.RUNNING]},
        },
    ),
}
