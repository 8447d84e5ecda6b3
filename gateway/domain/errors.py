"""Every error a caller can receive, in one table.

The promise of this module: a reply's status, code and text come from a `Fault`, and `Failure` is the only
exception that carries one. Whether a caller may try again follows from the status (429, 502, 503).
"""

from __future__ import annotations

import msgspec

RETRYABLE_STATUSES = frozenset({429, 502, 503})


class Fault(msgspec.Struct, frozen=True):
    """One row of the error table.

    Attributes:
        code: The contract's `codice`. One code may belong to two faults of different status.
        status: HTTP status of the reply, when no stream has been opened yet.
        message: Default `messaggio`, Italian, for the caller's log.
        english: The same in English, for operators.

    """

    code: str
    status: int
    message: str
    english: str

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, unchanged."""
        return self.status in RETRYABLE_STATUSES


class Failure(Exception):  # noqa: N818 - the domain's word; the suffix Error belongs to ports
    """A request that ends with an error of the table.

    Args:
        fault: The row of the table.
        note: Italian text that replaces the row's message, when it can be more exact.
        retry_after: Whole seconds after which a retry makes sense (429 and 503).
        reason: The true cause for the log, in English; never sent, never holds content.
        unsent: Providers were to be asked, but nothing of the request can have reached one.
        late: The providers' time was up.

    """

    def __init__(
        self,
        fault: Fault,
        note: str | None = None,
        *,
        retry_after: int | None = None,
        reason: str | None = None,
        unsent: bool = False,
        late: bool = False,
    ) -> None:
        super().__init__(fault.code)
        self.fault = fault
        self.note = note
        self.retry_after = retry_after
        self.reason = reason
        self.unsent = unsent
        self.late = late

    @property
    def message(self) -> str:
        """The text for the caller."""
        return self.note or self.fault.message


class StoreAwayError(Exception):
    """A store does not answer. What was asked of it may or may not have been carried out."""


INVALID_REQUEST = Fault(
    "richiesta_non_valida",
    400,
    "La richiesta non è valida.",
    "Malformed JSON, or a field missing or of a wrong type.",
)
METHOD_NOT_ALLOWED = Fault(
    "richiesta_non_valida",
    405,
    "Questo indirizzo non accetta il metodo usato.",
    "The address takes another method.",
)
BODY_TOO_SLOW = Fault(
    "richiesta_non_valida",
    408,
    "Il corpo della richiesta non è arrivato in tempo.",
    "The body of the request did not arrive in time.",
)
UNAUTHORIZED = Fault(
    "non_autorizzato",
    401,
    "Chiave assente, errata o non abbinata al progetto.",
    "Key missing, unknown, revoked, or of another project.",
)
UNKNOWN_ADDRESS = Fault("indirizzo_sconosciuto", 404, "Questo indirizzo non esiste.", "No such path.")
UNKNOWN_RECIPE = Fault("encode_sconosciuto", 404, "La ricetta richiesta non esiste.", "No such recipe.")
UNKNOWN_CONVERSATION = Fault(
    "conversazione_sconosciuta",
    404,
    "La conversazione non esiste.",
    "The conversation does not exist, or is another project's.",
)
UNKNOWN_BATCH = Fault(
    "pratica_sconosciuta", 404, "La pratica non esiste.", "The batch does not exist, or is another project's."
)
UNKNOWN_DOCUMENT = Fault(
    "documento_sconosciuto",
    404,
    "Il documento non esiste.",
    "The document does not exist, or is another project's.",
)
CONTENT_TOO_LARGE = Fault(
    "contenuto_troppo_grande", 413, "Il contenuto supera il limite.", "Content or body beyond the limit."
)
TOO_MANY_REQUESTS = Fault(
    "troppe_richieste",
    429,
    "Il progetto ha superato il suo limite di chiamate: riprovare più tardi.",
    "The project's limit of calls is reached, or its running calls hold the rest of the budget.",
)
BUDGET_EXHAUSTED = Fault(
    "budget_esaurito",
    429,
    "Il progetto ha finito il suo tetto di spesa giornaliero: riprovare domani.",
    "The project's daily cap is spent.",
)
PROVIDER_ERROR = Fault(
    "errore_ai",
    502,
    "Il provider AI ha risposto con un errore: riprovare più tardi.",
    "The provider answered with an error.",
)
PROVIDER_UNAVAILABLE = Fault(
    "ai_non_disponibile",
    503,
    "Il provider AI è momentaneamente irraggiungibile o sovraccarico.",
    "The provider is out of reach or overloaded.",
)
INVALID_DOCUMENT = Fault(
    "documento_non_valido",
    400,
    "Un allegato non è leggibile.",
    "An attachment cannot be read as what it should be.",
)
DOCUMENTS_NOT_ENABLED = Fault(
    "documenti_non_abilitati",
    403,
    "Il progetto non può allegare documenti: si accende dal pannello.",
    "The project may not attach documents.",
)
IMAGES_NOT_ENABLED = Fault(
    "immagini_non_abilitate",
    403,
    "Il progetto non può allegare foto: si accende dal pannello (Progetti → Immagini).",
    "The project may not attach photos.",
)
DOCUMENT_TOO_LARGE = Fault(
    "documento_troppo_grande",
    413,
    "Un allegato supera i limiti di peso o di pagine.",
    "An attachment beyond the limits of weight or pages.",
)
TOO_MANY_ATTACHMENTS = Fault(
    "troppi_documenti", 413, "Più di 5 allegati in una chiamata.", "More than 5 attachments in one call."
)
DEFERRED_NOT_ENABLED = Fault(
    "differito_non_abilitato",
    403,
    "Il progetto non può mandare lavoro in differito: si accende dal pannello.",
    "The project may not send deferred work.",
)
TOO_MANY_BATCHES = Fault(
    "troppe_pratiche",
    429,
    "Il progetto ha troppe pratiche differite ancora aperte: ritirarne qualcuna.",
    "Too many open batches.",
)
REFUSED = Fault(
    "richiesta_rifiutata",
    422,
    "Il modello si è rifiutato di rispondere per motivi di sicurezza: se la richiesta è legittima va riformulata.",
    "The model refused for reasons of safety.",
)
KNOWLEDGE_NOT_ENABLED = Fault(
    "conoscenza_non_abilitata",
    403,
    "La conoscenza non è accesa su questo progetto.",
    "Knowledge is off for this project.",
)
TOO_MANY_DOCUMENTS = Fault(
    "troppi_documenti", 429, "Il progetto ha già 200 documenti.", "The project already has 200 documents."
)
KNOWLEDGE_WITHOUT_KEY = Fault(
    "conoscenza_senza_chiave", 503, "Manca la chiave OpenAI in Pepper.", "No OpenAI key for embeddings."
)
STORE_UNAVAILABLE = Fault(
    "servizio_non_disponibile",
    503,
    "Pepper è momentaneamente non disponibile: riprovare fra qualche secondo.",
    "A store is away, or the worker is full.",
)
INTERNAL_ERROR = Fault("errore_interno", 500, "Errore interno di Pepper.", "A fault of the gateway itself.")

CONTRACT_FAULTS: tuple[Fault, ...] = (
    INVALID_REQUEST,
    UNAUTHORIZED,
    UNKNOWN_RECIPE,
    UNKNOWN_CONVERSATION,
    CONTENT_TOO_LARGE,
    TOO_MANY_REQUESTS,
    BUDGET_EXHAUSTED,
    PROVIDER_ERROR,
    PROVIDER_UNAVAILABLE,
    INVALID_DOCUMENT,
    DOCUMENTS_NOT_ENABLED,
    IMAGES_NOT_ENABLED,
    DOCUMENT_TOO_LARGE,
    TOO_MANY_ATTACHMENTS,
    DEFERRED_NOT_ENABLED,
    TOO_MANY_BATCHES,
    UNKNOWN_BATCH,
    REFUSED,
    KNOWLEDGE_NOT_ENABLED,
    UNKNOWN_DOCUMENT,
    TOO_MANY_DOCUMENTS,
    KNOWLEDGE_WITHOUT_KEY,
)
"""The codes of the contract's tables, in their order."""

GATEWAY_FAULTS: tuple[Fault, ...] = (
    METHOD_NOT_ALLOWED,
    BODY_TOO_SLOW,
    UNKNOWN_ADDRESS,
    STORE_UNAVAILABLE,
    INTERNAL_ERROR,
)
"""The gateway's own, for what the contract does not name."""

FAULTS = CONTRACT_FAULTS + GATEWAY_FAULTS
