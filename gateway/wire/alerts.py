"""Alerts as they are told: the letter, and what the webhook is posted. In Italian, without secrets or contents."""

from __future__ import annotations

from datetime import date

import msgspec

from gateway.domain.alerts import NEAR_PERCENT, Alert, AlertKind, Letter
from gateway.domain.money import dollars
from gateway.wire.glossary import Wire, words

_END = "\n\nOgni allarme di questo genere arriva al massimo una volta al giorno.\n"


class AlertBody(
    Wire,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename=words(kind="allarme", day="giorno", spent="spesa_usd", cap="tetto_usd"),
):
    """What the webhook is posted; amounts in US dollars."""

    kind: str
    day: str
    project: str | None = None
    spent: float | None = None
    cap: float | None = None
    provider: str | None = None
    model: str | None = None


def encode_alert(alert: Alert) -> bytes:
    """Encode an alert for the webhook."""
    body = AlertBody(kind=alert.kind.value, day=alert.day.isoformat())
    if alert.kind is AlertKind.CIRCUIT:
        provider, _, model = alert.subject.partition("/")
        body = msgspec.structs.replace(body, provider=provider, model=model)
    elif alert.kind is not AlertKind.TEST:
        body = msgspec.structs.replace(
            body, project=alert.subject, spent=dollars(alert.spent), cap=dollars(alert.cap)
        )
    return msgspec.json.encode(body)


def write_letter(alert: Alert) -> Letter:
    """Write the mail that tells an alert."""
    match alert.kind:
        case AlertKind.CAP_NEAR:
            return Letter(
                f"Pepper: {alert.subject} ha speso l'{NEAR_PERCENT}% del tetto di oggi",
                f"{_spending(alert)}\n\n"
                "Quando il tetto è raggiunto, le chiamate del progetto ricevono 429 budget_esaurito fino a mezzanotte."
                f"{_how_to_raise(alert)}{_END}",
            )
        case AlertKind.CAP_REACHED:
            return Letter(
                f"Pepper: {alert.subject} ha raggiunto il tetto di oggi",
                f"{_spending(alert)}\n\n"
                "Fino a mezzanotte le chiamate del progetto ricevono 429 budget_esaurito."
                f"{_how_to_raise(alert)}{_END}",
            )
        case AlertKind.CIRCUIT:
            provider, _, model = alert.subject.partition("/")
            return Letter(
                f"Pepper: {model} di {provider} non risponde",
                f"Il modello {model} del fornitore {provider} non ha risposto a cinque chiamate di fila in 30 secondi.\n\n"
                "Le chiamate passano al ripiego del modello Pepper, se ce n'è uno; altrimenti ricevono un errore. "
                "Ogni 15 secondi una chiamata riprova, e quando va bene tutto torna come prima da sé."
                f"{_END}",
            )
        case AlertKind.TEST:
            return Letter(
                "Pepper: messaggio di prova",
                "È un messaggio di prova, chiesto dal pannello: gli allarmi di Pepper arrivano a questo indirizzo.\n",
            )


def _spending(alert: Alert) -> str:
    percent = 100 * alert.spent // alert.cap
    return (
        f"Il progetto {alert.subject} ha speso {_usd(alert.spent)} dei {_usd(alert.cap)} "
        f"che può spendere il {_day(alert.day)} ({percent}%)."
    )


def _how_to_raise(alert: Alert) -> str:
    return (
        "\nIl tetto si cambia nel pannello, nella pagina del progetto, oppure con:\n\n"
        f"    pepper project set {alert.subject} --daily-budget USD"
    )


def _usd(micros: int) -> str:
    """An amount as people write it in Italian: two decimals, more only if there are any."""
    whole, _, rest = f"{dollars(micros):,.6f}".partition(".")
    decimals = rest[:2] + rest[2:].rstrip("0")
    return f"{whole.replace(',', '.')},{decimals} USD"


def _day(day: date) -> str:
    return f"{day:%d/%m/%Y}"
