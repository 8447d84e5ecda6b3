"""The pages of `docs/` that are written by a program: `python -m tests.docs` writes them anew."""

from __future__ import annotations

from pathlib import Path

from gateway.domain.errors import CONTRACT_FAULTS, FAULTS, GATEWAY_FAULTS, Fault

DOCS = Path(__file__).parents[1] / "docs"
ERRORS = DOCS / "errors.md"

_HEAD = "| HTTP | `codice` | repeat | `messaggio` | meaning |\n| --- | --- | --- | --- | --- |"


def errors_page() -> str:
    """Give `docs/errors.md`: the table of `gateway/domain/errors.py` and how to read it."""
    again = ", ".join(
        f"`{status}`" for status in sorted({fault.status for fault in FAULTS if fault.retryable})
    )
    return f"""# Errors

<!-- Written by `python -m tests.docs` from gateway/domain/errors.py: change it there. -->

Every error has one form, on every address:

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
"""


def _table(faults: tuple[Fault, ...]) -> str:
    return "\n".join((_HEAD, *map(_row, faults)))


def _row(fault: Fault) -> str:
    again = "yes" if fault.retryable else "no"
    return f"| {fault.status} | `{fault.code}` | {again} | {fault.message} | {fault.english} |"


if __name__ == "__main__":
    ERRORS.write_text(errors_page())
