"""The words about what a project can do."""

from __future__ import annotations

from gateway.domain.catalog import Level
from gateway.wire.capabilities import (
    CapabilitiesReply,
    LimitsReply,
    ModelsReply,
    PepperReply,
    PowersReply,
    RecipeReply,
    SpendingReply,
)
from gateway.wire.glossary import Wire
from gateway.wire.knowledge import KnowledgeReply
from gateway.wire.openapi.words import MODEL, OK, Described

CAPABILITIES: dict[type[Wire], Described] = {
    CapabilitiesReply: Described(
        name="Capacita",
        about="Che cosa può fare Pepper per questo progetto, adesso.",
        fields={
            "ok": OK,
            "progetto": "Il progetto.",
            "versione": "Il modello Pepper con cui parla.",
            "novita": "Che cosa c'è di nuovo in quel modello.",
            "pepper": "Il modello Pepper, per le persone.",
            "ricette": "Le ricette che il progetto può nominare in `encode`.",
            "puo": "Che cosa è acceso: i pulsanti da mostrare.",
            "conoscenza": "La conoscenza del progetto; `null` quando è spenta.",
            "limiti": "I limiti.",
            "spesa": "La spesa della giornata del progetto, in dollari USA.",
            "modelli": "Il provider e i suoi modelli.",
        },
    ),
    PepperReply: Described(
        name="CapacitaPepper",
        about="Il modello Pepper, per le persone.",
        fields={
            "nome": "Il nome.",
            "descrizione": "Che cosa è.",
            "ragionamento": "Se ragiona prima di rispondere.",
            "voce_nelle_app": "Se parla nelle app.",
        },
    ),
    RecipeReply: Described(
        name="CapacitaRicetta",
        about="Una ricetta.",
        fields={
            "nome": "Il nome, per `encode`.",
            "descrizione": "Che cosa fa.",
            "livello": "Quale dei due modelli lavora.",
            "internet": "Se la ricetta può cercare sul web; serve anche il permesso del progetto.",
        },
        bounds={"livello": {"enum": [level.value for level in Level]}},
    ),
    PowersReply: Described(
        name="CapacitaPuo",
        about="Che cosa è acceso.",
        fields={
            "conversazioni": OK,
            "documenti": "Se può allegare PDF.",
            "immagini": "Se può allegare foto.",
            "differito": "Se può mandare lavoro differito.",
            "internet": "Se può cercare sul web.",
            "agente": "Sempre `false` in questa versione.",
            "streaming": OK,
            "conoscenza": "Se la conoscenza è accesa.",
        },
        bounds={"conversazioni": {"const": True}, "streaming": {"const": True}, "agente": {"const": False}},
    ),
    KnowledgeReply: Described(
        name="CapacitaConoscenza",
        about="La conoscenza del progetto.",
        fields={
            "documenti": "Quanti documenti.",
            "pezzi": "Quanti pezzi, di tutti insieme.",
            "nota": "Chi legge i testi, e che cosa non va.",
        },
        bounds={"documenti": {"minimum": 0}, "pezzi": {"minimum": 0}},
    ),
    LimitsReply: Described(
        name="CapacitaLimiti",
        about="I limiti.",
        fields={
            "contenuto_caratteri": "Caratteri di `contenuto`.",
            "documenti_per_chiamata": "Allegati in una chiamata.",
            "documento_mb": "Peso di un PDF, in MB.",
            "immagine_mb": "Peso di una foto, in MB.",
            "documento_pagine": "Pagine di tutti i PDF insieme.",
            "immagini_tipi": "Tipi di foto accettati.",
            "documento_pagine_economico": "Pagine, con una ricetta di livello `economico`.",
            "differito_testi": "Testi in una pratica.",
            "differito_pratiche_aperte": "Pratiche aperte insieme.",
            "chiamate_ora": "Chiamate in 3.600 secondi.",
            "domini_internet": "I soli domini in cui si cerca; vuoto: tutti.",
        },
    ),
    SpendingReply: Described(
        name="CapacitaSpesa",
        about="La spesa della giornata, in dollari USA.",
        fields={
            "oggi_usd": "Spesi oggi, con quello che tengono le pratiche aperte e senza le chiamate in corso.",
            "tetto_usd": "Il tetto; `null` se non c'è.",
            "residuo_usd": "Quanto resta; `null` senza tetto.",
        },
        bounds={"oggi_usd": {"minimum": 0}, "residuo_usd": {"minimum": 0}},
    ),
    ModelsReply: Described(
        name="CapacitaModelli",
        about="Il provider e i suoi modelli per i due livelli.",
        fields={"provider": "Il provider.", "principale": MODEL, "economico": MODEL},
    ),
}
