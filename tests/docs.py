"""The pages of `docs/`: read for tests, and written where a program writes them (`python -m tests.docs`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gateway.dilem.errors import CODES, Code
from gateway.domain.errors import CONTRACT_FAULTS, FAULTS, GATEWAY_FAULTS, Fault

DOCS = Path(__file__).parents[1] / "docs"
ERRORS = DOCS / "errors.md"
ERRORI = DOCS / "it" / "errori.md"


def page_text(name: str) -> str:
    """Give a page as it is."""
    return (DOCS / name).read_text()


def prose(name: str) -> str:
    """Give a page as one line, so that a sentence can be looked for wherever it is broken."""
    return " ".join(page_text(name).split())


def section(page: str, heading: str) -> str:
    """Give the text under a heading, up to the next one of its rank or above."""
    rank = heading.index(" ")
    _, _, rest = page.partition(f"\n{heading}\n")
    assert rest, heading
    return re.split(rf"^#{{1,{rank}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(text: str) -> Iterator[str]:
    """Give the first cell of every row of the tables in a text, without their headings."""
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and not line.startswith("| ---") and not following.startswith("| ---"):
            yield line.split(" | ")[0].removeprefix("| ").strip()


def names(text: str) -> list[str]:
    """Give the names (in backticks) in the first cells of the tables in a text."""
    return [name for cell in first_cells(text) for name in re.findall(r"`([^`]+)`", cell)]


_HEAD = "| HTTP | `codice` | repeat | `messaggio` | meaning |\n| --- | --- | --- | --- | --- |"


def errors_page() -> str:
    """Give `docs/errors.md`: the tables of `domain/errors.py` and `dilem/errors.py`, and how to read them."""
    again = ", ".join(
        f"`{status}`" for status in sorted({fault.status for fault in FAULTS if fault.retryable})
    )
    return f"""# Errors

<!-- Written by `python -m tests.docs` from gateway/domain/errors.py and gateway/dilem/errors.py: change it there. -->

Every error has one form, on every address but [Dilem's](#dilems):

```json
{{"ok": false, "errore": {{"codice": "troppe_richieste", "messaggio": "Il progetto ha superato il suo limite di chiamate."}}}}
```

- Decide by the HTTP status and `codice`. `messaggio` is for a log: it is often more exact than the one below, and may
  change.
- A request answered {again} may be repeated unchanged, after the seconds of `Retry-After`
  (always there with `429` and `503`). Every other one must be mended first. More in [contract.md](contract.md#errors).
- One `codice` may come with several statuses.
- In a stream that has been opened the status is `200`, and the error is the last event. Only the contract's codes occur
  there.
- A [sandbox project](sandbox.md) makes any of the contract's codes happen.

## The contract's

The contract fixes these codes, those of features that are not switched on included.

{_table(CONTRACT_FAULTS)}

## The gateway's own

For what the contract does not name.

{_table(GATEWAY_FAULTS)}

## Dilem's

Under `/api/v1` an error is of another form, in English, and the same over REST and MCP:

```json
{{"type": "error", "code": "case_completed", "message": "This case already has its recommendation: use a new Case-ID.", "retryable": false}}
```

- Look at `type` even at HTTP `200`: that is where a turn is told that failed after its case was admitted.
- `retryable` says that a person or an agent may consider a new attempt, never that a program should make one.
  `resets_at` is the end of the UTC day, where it matters.
- `Retry-After` is there when it is known.

{_dilem_table()}
"""


_TESTA = "| HTTP | `codice` | ripetere | `messaggio` |\n| --- | --- | --- | --- |"


def pagina_degli_errori() -> str:
    """Give `docs/it/errori.md`: the same for who reads Italian, without Dilem's."""
    again = ", ".join(
        f"`{status}`" for status in sorted({fault.status for fault in FAULTS if fault.retryable})
    )
    return f"""# Gli errori

<!-- Written by `python -m tests.docs` from gateway/domain/errors.py: change it there. -->

Tutti gli errori del [contratto](contratto.md) hanno la stessa forma, a ogni indirizzo. ([In English](../errors.md))

```json
{{"ok": false, "errore": {{"codice": "troppe_richieste", "messaggio": "Il progetto ha superato il suo limite di chiamate."}}}}
```

- Si decide dal codice HTTP e da `codice`. `messaggio` è per il log: spesso è più preciso di quello qui sotto, e può
  cambiare.
- Una richiesta che ha ricevuto {again} si può ripetere uguale, dopo i secondi di `Retry-After`
  (c'è sempre con `429` e `503`). Tutte le altre vanno prima corrette. Di più nel
  [contratto](contratto.md#gli-errori).
- Uno stesso `codice` può arrivare con codici HTTP diversi.
- In una risposta a pezzi già aperta il codice HTTP è `200`, e l'errore è l'ultimo evento. Lì ci sono soltanto i codici
  del contratto.
- Un [progetto di prova](../sandbox.md) fa succedere ognuno dei codici del contratto: basta scrivere
  `[[prova:CODICE]]` nel testo.

## Quelli del contratto

Compresi quelli delle funzioni che non sono accese.

{_tabella(CONTRACT_FAULTS)}

## Quelli del gateway

Per quello che il contratto non nomina.

{_tabella(GATEWAY_FAULTS)}
"""


def _tabella(faults: tuple[Fault, ...]) -> str:
    return "\n".join((_TESTA, *map(_riga, faults)))


def _riga(fault: Fault) -> str:
    again = "sì" if fault.retryable else "no"
    return f"| {fault.status} | `{fault.code}` | {again} | {fault.message} |"


def _dilem_table() -> str:
    head = "| HTTP | `code` | retryable | `resets_at` | `message` |\n| --- | --- | --- | --- | --- |"
    return "\n".join((head, *map(_dilem_row, CODES)))


def _dilem_row(code: Code) -> str:
    again, renews = ("yes" if each else "no" for each in (code.retryable, code.renews))
    return f"| {code.status} | `{code.code}` | {again} | {renews} | {code.message} |"


def _table(faults: tuple[Fault, ...]) -> str:
    return "\n".join((_HEAD, *map(_row, faults)))


def _row(fault: Fault) -> str:
    again = "yes" if fault.retryable else "no"
    return f"| {fault.status} | `{fault.code}` | {again} | {fault.message} | {fault.english} |"


if __name__ == "__main__":
    ERRORS.write_text(errors_page())
    ERRORI.write_text(pagina_degli_errori())
