"""The words that stand on every card, in the six languages."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from gateway.dilem.contract import Language

WORDMARK: Final = "Dilem"


class Labels(Struct, frozen=True, kw_only=True):
    """The fixed words of one language.

    Attributes:
        compared: After the number of options.
        recommended: Above the chosen option.
        summary: Above the summary.
        others: Above the other options.
        note: What the weights are, and are not.
        percent: After a weight's number; with the space that the language wants there.

    """

    compared: str
    recommended: str
    summary: str
    others: str
    note: str
    percent: str


LABELS: Final[dict[Language, Labels]] = {
    "fr": Labels(
        compared="options comparées",
        recommended="Recommandation",
        summary="En bref",
        others="Autres options",
        note="Poids de préférence, et non probabilités de réussite",
        percent="\u202f%",
    ),
    "en": Labels(
        compared="options compared",
        recommended="Recommendation",
        summary="In short",
        others="Other options",
        note="Preference weights, not probabilities of success",
        percent="%",
    ),
    "it": Labels(
        compared="opzioni a confronto",
        recommended="Raccomandazione",
        summary="In breve",
        others="Altre opzioni",
        note="Pesi di preferenza, non probabilità di successo",
        percent="%",
    ),
    "de": Labels(
        compared="Optionen im Vergleich",
        recommended="Empfehlung",
        summary="Kurz gesagt",
        others="Weitere Optionen",
        note="Präferenzgewichte, keine Erfolgswahrscheinlichkeiten",
        percent="\u202f%",
    ),
    "es": Labels(
        compared="opciones comparadas",
        recommended="Recomendación",
        summary="En resumen",
        others="Otras opciones",
        note="Pesos de preferencia, no probabilidades de éxito",
        percent="\u202f%",
    ),
    "pt": Labels(
        compared="opções comparadas",
        recommended="Recomendação",
        summary="Em resumo",
        others="Outras opções",
        note="Pesos de preferência, não probabilidades de sucesso",
        percent="%",
    ),
}


def weight(probability: float, labels: Labels) -> str:
    """Give a weight of 0 to 1 as whole hundredths: what is nearly nothing isn't told as nothing, nor all but."""
    hundredths = int(probability * 100 + 0.5)
    if hundredths == 0 and probability > 0:
        return f"<1{labels.percent}"
    if hundredths == 100 and probability < 1:
        return f">99{labels.percent}"
    return f"{hundredths}{labels.percent}"
