"""Who plays the model when the project `dilem` is a sandbox: the same dilemma, the same turn, and trigger words for each.

It answers like a model that keeps to the recipe: first a question, then a recommendation among the options that the
text names. Of several trigger words the last counts, so that a refinement can change what the text asked for.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from gateway.dilem.contract import Language
from gateway.dilem.dilemma import Dilemma
from gateway.dilem.turn_schema import TURN_SCHEMA
from gateway.dilem.validation import LABEL_CHARACTERS, MOST_OPTIONS, normalised
from gateway.domain.sandbox import triggers, without_triggers

QUESTION = "chiarimento"
SCOPE = "ambito"
SCOPE_NOTICE = "avviso_ambito"
NO_EVIDENCE = "prove_insufficienti"
RESULT = "risultato"
NEVER_VALID = "json_invalido"
VALID_WHEN_REPAIRED = "json_riparato"
WORDS: Final = (QUESTION, SCOPE, SCOPE_NOTICE, NO_EVIDENCE, RESULT, NEVER_VALID, VALID_WHEN_REPAIRED)

# Between alternatives, in the six languages: the plain words first, because `o` is an article in Portuguese.
_BETWEEN = tuple(
    re.compile(rf"\s*[,;]\s*(?:{word}\s+)?|\s+{word}\s+", re.IGNORECASE)
    for word in ("(?:oppure|oder|or|ou)", "[ou]")
)
_OR = tuple(re.compile(rf"\s{word}\s", re.IGNORECASE) for word in ("(?:oppure|oder|or|ou)", "[ou]"))
_ENDS = " \t\n.?!¿¡:…"

_decode = msgspec.json.Decoder(Dilemma).decode


class _Phrases(msgspec.Struct, frozen=True):
    question: str
    choices: tuple[str, str, str]
    scope: str
    notice: str
    evidence: str
    dilemma: str
    options: tuple[str, str]
    description: str
    criterion: str
    assumption: str
    caution: str


_PHRASES: Final[Mapping[Language, _Phrases]] = {
    "it": _Phrases(
        "Che cosa conta di più per te in questa scelta?",
        ("Il costo", "Il tempo", "La tranquillità"),
        "Che cosa devi decidere, in una frase?",
        "Prova: questa decisione va presa con una persona qualificata.",
        "Prova: mancano gli elementi per un confronto fondato.",
        "Dilemma di prova",
        ("Procedere", "Aspettare"),
        "Opzione di prova.",
        "Criterio di prova",
        "Ipotesi di prova",
        "Risposta di prova: nessun modello l'ha pensata.",
    ),
    "en": _Phrases(
        "What matters most to you in this choice?",
        ("Cost", "Time", "Peace of mind"),
        "What do you have to decide, in one sentence?",
        "Test: this decision belongs with a qualified person.",
        "Test: there is not enough to compare the options on.",
        "Test dilemma",
        ("Go ahead", "Wait"),
        "Test option.",
        "Test criterion",
        "Test assumption",
        "Test answer: no model has thought about it.",
    ),
    "fr": _Phrases(
        "Qu'est-ce qui compte le plus pour vous dans ce choix ?",
        ("Le coût", "Le temps", "La tranquillité"),
        "Que devez-vous décider, en une phrase ?",
        "Test : cette décision revient à une personne qualifiée.",
        "Test : il manque de quoi fonder une comparaison.",
        "Dilemme de test",
        ("Se lancer", "Attendre"),
        "Option de test.",
        "Critère de test",
        "Hypothèse de test",
        "Réponse de test : aucun modèle n'y a réfléchi.",
    ),
    "de": _Phrases(
        "Was ist dir bei dieser Entscheidung am wichtigsten?",
        ("Die Kosten", "Die Zeit", "Die Ruhe"),
        "Was ist zu entscheiden, in einem Satz?",
        "Test: Diese Entscheidung gehört zu einer Fachperson.",
        "Test: Für einen fundierten Vergleich fehlen Angaben.",
        "Testdilemma",
        ("Loslegen", "Abwarten"),
        "Testoption.",
        "Testkriterium",
        "Testannahme",
        "Testantwort: Kein Modell hat darüber nachgedacht.",
    ),
    "es": _Phrases(
        "¿Qué es lo que más te importa en esta elección?",
        ("El coste", "El tiempo", "La tranquilidad"),
        "¿Qué tienes que decidir, en una frase?",
        "Prueba: esta decisión corresponde a una persona cualificada.",
        "Prueba: faltan elementos para una comparación fundada.",
        "Dilema de prueba",
        ("Seguir adelante", "Esperar"),
        "Opción de prueba.",
        "Criterio de prueba",
        "Supuesto de prueba",
        "Respuesta de prueba: ningún modelo la ha pensado.",
    ),
    "pt": _Phrases(
        "O que mais conta para ti nesta escolha?",
        ("O custo", "O tempo", "A tranquilidade"),
        "O que tens de decidir, numa frase?",
        "Teste: esta decisão cabe a uma pessoa qualificada.",
        "Teste: faltam elementos para uma comparação fundamentada.",
        "Dilema de teste",
        ("Avançar", "Esperar"),
        "Opção de teste.",
        "Critério de teste",
        "Pressuposto de teste",
        "Resposta de teste: nenhum modelo pensou nela.",
    ),
}


def stand_ins() -> dict[str, Callable[[str], str]]:
    """Whom the sandbox asks in the model's place, by the schema's name."""
    return {TURN_SCHEMA.name: play}


def play(message: str) -> str:
    """Give the model's answer to a message of `dilemma.message_of`; to any other text, that of a text alone."""
    try:
        dilemma = _decode(message)
    except msgspec.DecodeError:
        dilemma = Dilemma(text=message, refinements=(), language="it", force=False, clarification_count=0)
    written = " ".join((dilemma.text, *dilemma.refinements))
    wanted = [word for word in triggers(written).codes if word in WORDS]
    word = wanted[-1] if wanted else None
    if word == NEVER_VALID or (word == VALID_WHEN_REPAIRED and dilemma.repair is None):
        return '{"turn": {"type": "result", "summary": '
    turn = _turn(dilemma, word)
    return msgspec.json.encode({"turn": turn}).decode()


def _turn(dilemma: Dilemma, word: str | None) -> dict[str, Any]:
    phrases = _PHRASES[dilemma.language]
    summary = without_triggers(dilemma.text) or phrases.dilemma
    if word == SCOPE_NOTICE:
        return _clarification(summary, phrases.notice, purpose="scope_notice")
    if word == NO_EVIDENCE:
        return _clarification(summary, phrases.evidence, purpose="insufficient_evidence")
    if dilemma.force or word == RESULT or (dilemma.refinements and word not in (QUESTION, SCOPE)):
        return _result(summary, phrases)
    if word == SCOPE:
        return _clarification(summary, phrases.scope, purpose="decision_scope")
    return _clarification(summary, phrases.question, choices=phrases.choices)


def _clarification(
    summary: str, question: str, *, purpose: str | None = None, choices: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "type": "clarification",
        "purpose": purpose,
        "summary": summary,
        "question": question,
        "format": "single" if choices else "text",
        "choices": choices,
        "unit": None,
    }


def _result(summary: str, phrases: _Phrases) -> dict[str, Any]:
    labels = alternatives(summary) or phrases.options
    chosen = zlib.crc32(summary.encode()) % len(labels)
    weights = normalised([2.0 if at == chosen else 1.0 for at in range(len(labels))], chosen)
    return {
        "type": "result",
        "summary": summary,
        "context": summary,
        "criteria": (phrases.criterion,),
        "assumptions": (phrases.assumption,),
        "options": [
            {
                "id": f"option_{number}",
                "label": label,
                "description": phrases.description,
                "probability": weight,
            }
            for number, (label, weight) in enumerate(zip(labels, weights, strict=True), start=1)
        ],
        "selected": f"option_{chosen + 1}",
        "caution": phrases.caution,
    }


def alternatives(text: str) -> tuple[str, ...]:
    """Find what a text chooses between («treno, bus o auto?»); nothing where it does not say so plainly."""
    between = next((split for split, word in zip(_BETWEEN, _OR, strict=True) if word.search(text)), None)
    if between is None:
        return ()
    found = {part.casefold(): part for each in between.split(text) if (part := each.strip(_ENDS))}
    labels = tuple(found.values())
    plain = 2 <= len(labels) <= MOST_OPTIONS and all(len(label) <= LABEL_CHARACTERS for label in labels)
    return labels if plain else ()
