"""Pepper for Python 3.10 and newer, in one file: copy it, `pip install httpx`, call.

    from pepper_client import Pepper

    pepper = Pepper("https://gateway.example.it", "negozio", os.environ["NEGOZIO_PEPPER_KEY"])
    print(pepper.ask("riassumi", text)["risposta"])

The address may also be that of `/api.php`. Every method gives the decoded reply, whose `ok` is true, or raises a
`PepperError`. A `Pepper` keeps its connections and may be shared by threads.

Replies 429, 502 and 503, and connections that broke before anything of an answer had come, are asked again up to three
times: after the `Retry-After` of the reply (given up if it is above 60 seconds), else after about 1, 2 and 4 seconds.
All attempts of a call carry the same `Idempotency-Key`, so nothing is paid twice. Handing in deferred work is never
repeated, because for it there is no such key.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import random
import re
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict, Union, cast
from urllib.parse import unquote, urlsplit

import httpx

CALL_SECONDS = 300.0
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0  # in an answer in pieces something comes every 15
PAUSES = (1.0, 2.0, 4.0)
LONGEST_PAUSE = 60.0
CAPABILITIES_SECONDS = 86_400.0
ATTACHED_BYTES = 20 * 1024 * 1024  # of all files together; Pepper would refuse them anyway

RETRYABLE_STATUSES = frozenset({429, 502, 503})
FUTILE_CODES = frozenset({"tempo_scaduto", "troppi_documenti", "conoscenza_senza_chiave"})
"""Waiting mends none of these: the time is over, or somebody has to do something."""
RETRYABLE_CODES = frozenset(
    {
        "troppe_richieste",
        "budget_esaurito",
        "troppe_pratiche",
        "errore_ai",
        "ai_non_disponibile",
        "conoscenza_senza_chiave",
        "servizio_non_disponibile",
    }
)

Document = Union[str, "os.PathLike[str]", Mapping[str, str]]
"""A path, an https address, or an entry as the contract has it (`nome` with `dati` or `url`)."""


class Answer(TypedDict):
    """A reply of `/api.php`."""

    ok: bool
    risposta: str
    conversazione: str | None
    meta: dict[str, Any]


class PepperError(Exception):
    """A call that ended without an answer.

    Besides Pepper's codes there are those of this side: `configurazione` (address or key are malformed),
    `nessuna_risposta` (no connection, or one that broke), `tempo_scaduto`, `risposta_interrotta` (an answer that
    stopped half way) and `risposta_estranea` (somebody answered, but not Pepper: a proxy, another site).

    Attributes:
        code: What to decide by.
        retryable: Whether the same call may succeed later, unchanged.
        status: HTTP status; 0 when none came, 200 for an error inside of an answer in pieces.
        retry_after: Seconds after which Pepper says that it makes sense to ask again.
        request_id: Pepper's id of the request, for who looks into it.
        idempotency_key: The key used: asked again with it, `ask` pays nothing twice.

    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = False,
        status: int = 0,
        retry_after: float | None = None,
        request_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        super().__init__(f"Pepper: {message} ({code})")
        self.code = code
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        self.request_id = request_id
        self.idempotency_key = idempotency_key


class Pepper:
    """One project's way to Pepper. Close it, or use it as a context manager."""

    def __init__(self, url: str, project: str, key: str) -> None:
        if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", url, re.IGNORECASE):
            raise PepperError("configurazione", "l'indirizzo deve essere come https://gateway.example.it")
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            raise PepperError(
                "configurazione", "la chiave è vuota o contiene caratteri che una chiave non ha"
            )
        self._base = re.sub(r"/api\.php/*$", "", url).rstrip("/")
        self._project = project
        self._key = key
        self._client = httpx.Client()

    def __enter__(self) -> Pepper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    # --- what it does ---------------------------------------------------------------------------------------------

    def ask(
        self,
        recipe: str,
        content: str,
        *,
        conversation: str | None = None,
        extra: Mapping[str, Any] | None = None,
        documents: Iterable[Document] | Mapping[str, Document] = (),
        on_piece: Callable[[str], object] | None = None,
        idempotency_key: str | None = None,
    ) -> Answer:
        """Do one piece of work.

        Args:
            recipe: riassumi, correggi, estrai, classifica, libero...
            content: The text.
            conversation: "nuova" opens a conversation, an id continues it.
            extra: Parameters of the recipe, such as `{"lingua": "en"}`.
            documents: PDFs and photos; a mapping gives the names to send.
            on_piece: Gets the answer piece by piece while it is written.
            idempotency_key: One of your own, to be able to ask again later, in another process too, without paying
                twice; without it each call makes one.

        Raises:
            PepperError: There is no answer.

        """
        fields = _work(recipe, extra, documents, contenuto=content, conversazione=conversation)
        key = _checked(idempotency_key)
        if on_piece is None:
            return cast("Answer", self._reply("api.php", fields, key, "risposta"))
        with contextlib.closing(
            self._repeated("api.php", {**fields, "stream": True}, key, "risposta")
        ) as pieces:
            while True:
                try:
                    piece = next(pieces)
                except StopIteration as end:
                    return cast("Answer", end.value)
                on_piece(piece)

    def ask_in_pieces(
        self,
        recipe: str,
        content: str,
        *,
        conversation: str | None = None,
        extra: Mapping[str, Any] | None = None,
        documents: Iterable[Document] | Mapping[str, Document] = (),
        idempotency_key: str | None = None,
    ) -> Generator[str, None, Answer]:
        """Yield the pieces of an answer while it is written; the generator's value is the whole.

        Closing the generator early hangs up: Pepper stops, and what was written is paid.

        Raises:
            PepperError: As with `ask`, also after some pieces.

        """
        fields = _work(recipe, extra, documents, contenuto=content, conversazione=conversation, stream=True)
        answer = yield from self._repeated("api.php", fields, _checked(idempotency_key), "risposta")
        return cast("Answer", answer)

    def defer(
        self,
        recipe: str,
        contents: str | Sequence[str],
        *,
        extra: Mapping[str, Any] | None = None,
        documents: Iterable[Document] | Mapping[str, Document] = (),
    ) -> str:
        """Hand in work that can wait, at half the price, and give its number: the receipt, to be stored.

        It is sent once. When it ends with `risposta_interrotta`, `nessuna_risposta` or `tempo_scaduto`, the work may
        have been taken in all the same, and handing it in again would be work done and paid twice.

        Args:
            recipe: As with `ask`.
            contents: One text, or up to 100.
            extra: As with `ask`.
            documents: As with `ask`; only with one text given as a string.

        """
        texts = {"contenuto": contents} if isinstance(contents, str) else {"contenuti": list(contents)}
        fields = _work(recipe, extra, documents, modo="differito", **texts)
        return str(self._reply("api.php", fields, None, "pratica")["pratica"])

    def collect(self, number: str) -> dict[str, Any]:
        """Ask what became of deferred work: `stato` is in_corso, pronta, fallita or scaduta.

        Pepper looks no more than once in 20 seconds.
        """
        return self._reply("pratica.php", {"pratica": number}, _checked(None))

    def capabilities(self, *, refresh: bool = False) -> dict[str, Any]:
        """Give what Pepper can do for this project: `puo`, `ricette`, `limiti`...

        The reply is kept for a day, in a file of the system's temporary folder that nobody else can read; what is
        `spesa` there is as old as the file. With `refresh` it is asked for now.
        """
        copy = _Copy(self._base, self._project)
        kept = None if refresh else copy.read()
        if kept is not None:
            return kept
        reply = self._reply("capacita.php", {}, _checked(None))
        copy.write(reply)
        return reply

    def add_knowledge(self, name: str, text: str) -> dict[str, Any]:
        """Put a text into the project's knowledge; one of the same name is replaced."""
        return self._reply(
            "conoscenza.php", {"azione": "carica", "nome": name, "testo": text}, _checked(None)
        )

    def list_knowledge(self) -> dict[str, Any]:
        """List the project's knowledge."""
        return self._reply("conoscenza.php", {"azione": "elenco"}, _checked(None))

    def remove_knowledge(self, document: int) -> dict[str, Any]:
        """Take a document out of the project's knowledge."""
        return self._reply("conoscenza.php", {"azione": "togli", "documento": document}, _checked(None))

    # --- how ------------------------------------------------------------------------------------------------------

    def _reply(
        self, file: str, fields: Mapping[str, Any], key: str | None, must_have: str | None = None
    ) -> dict[str, Any]:
        attempts = self._repeated(file, fields, key, must_have)
        try:
            next(attempts)
        except StopIteration as end:
            return cast("dict[str, Any]", end.value)
        raise AssertionError("only what is asked for in pieces comes in pieces")

    def _repeated(
        self, file: str, fields: Mapping[str, Any], key: str | None, must_have: str | None
    ) -> Generator[str, None, dict[str, Any]]:
        """Ask, again where that makes sense, and return the reply, in which the field named is a string."""
        until = time.monotonic() + CALL_SECONDS
        try:
            body = json.dumps(
                {"progetto": self._project, **fields}, ensure_ascii=False, allow_nan=False
            ).encode()
        except (TypeError, ValueError) as error:
            raise PepperError(
                "richiesta_non_valida", f"la richiesta non si può scrivere in JSON: {error}"
            ) from None
        pauses: Iterator[float | None] = iter((*PAUSES, None))
        while True:
            began = False
            attempt = _Attempt(f"{self._base}/{file}", self._key, key, streamed="stream" in fields)
            try:
                with self._connection(key) as client, contextlib.closing(attempt.run(client, body)) as pieces:
                    for piece in pieces:
                        began = True
                        yield piece
                return attempt.reply_with(must_have)
            except PepperError as error:
                pause = next(pauses)
                # A call whose time is over has had all of it; of an answer that began the caller has a part.
                final = not error.retryable or error.code in FUTILE_CODES or began
                if final or key is None or pause is None:
                    raise
                wait = pause * random.uniform(0.8, 1.2) if error.retry_after is None else error.retry_after
                if wait > LONGEST_PAUSE or time.monotonic() + wait > until:
                    raise
            time.sleep(wait)

    def _connection(self, key: str | None) -> contextlib.AbstractContextManager[httpx.Client]:
        """Give the client; a new one for what can't be repeated when a kept connection turns out to be closed."""
        return httpx.Client() if key is None else contextlib.nullcontext(self._client)


class _Attempt:
    """One request and what is known of its reply."""

    def __init__(self, url: str, secret: str, key: str | None, *, streamed: bool) -> None:
        self._url = url
        self._secret = secret
        self._key = key
        self._streamed = streamed
        self._until = time.monotonic() + CALL_SECONDS
        self._status = 0
        self._headers: httpx.Headers = httpx.Headers()
        self._reply: dict[str, Any] = {}

    def reply_with(self, field: str | None) -> dict[str, Any]:
        """Give the whole reply, in which a field is a string."""
        if field is not None and not isinstance(self._reply.get(field), str):
            raise self._foreign()
        return self._reply

    def run(self, client: httpx.Client, body: bytes) -> Generator[str, None, None]:
        """Ask; yields the pieces, if it comes in pieces."""
        headers = {"Content-Type": "application/json", "X-Pepper-Key": self._secret}
        if self._key is not None:
            headers["Idempotency-Key"] = self._key
        timeout = httpx.Timeout(CALL_SECONDS, connect=CONNECT_SECONDS)
        if self._streamed:
            timeout = httpx.Timeout(CALL_SECONDS, connect=CONNECT_SECONDS, read=SILENCE_SECONDS)
        try:
            with client.stream(
                "POST", self._url, content=body, headers=headers, timeout=timeout, follow_redirects=False
            ) as response:
                self._status, self._headers = response.status_code, response.headers
                kind = response.headers.get("content-type", "").lower()
                if self._streamed and self._status == 200 and kind.startswith("text/event-stream"):
                    yield from self._told(response)
                else:
                    self._whole(self._body(response))
                    if self._streamed and isinstance(self._reply.get("risposta"), str):
                        yield self._reply["risposta"]
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            lasting = "CERTIFICATE" in str(error)
            message = f"non risponde: {error or type(error).__name__}"
            raise self._lost("nessuna_risposta", message, retryable=not lasting) from None
        except httpx.TimeoutException:
            raise self._out_of_time() from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            if self._status:
                raise self._cut() from None
            raise self._lost("nessuna_risposta", f"non risponde: {type(error).__name__}") from None

    def _told(self, response: httpx.Response) -> Iterator[str]:
        for name, data in events_of(self._in_time(response)):
            value = _decoded(data)
            fields = value if isinstance(value, dict) else {}
            if name == "delta" and isinstance(fields.get("text"), str):
                yield fields["text"]
            elif name == "done" and fields:
                self._reply = fields
                return
            elif name == "error":
                raise self._told_error(fields)
        raise self._cut()

    def _body(self, response: httpx.Response) -> bytes:
        body = b""
        try:
            for chunk in self._in_time(response):
                body += chunk
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            # A refusal may be here whole although the connection broke on what was still being sent.
            if _decoded(body) is None:
                raise
        return body

    def _whole(self, body: bytes) -> None:
        reply = _decoded(body)
        if isinstance(reply, dict):
            if reply.get("ok") is True and self._status // 100 == 2:
                self._reply = reply
                return
            error = reply.get("errore")
            if isinstance(error, dict) and isinstance(error.get("codice"), str):
                raise self._told_error(error)
        if self._status == 504:
            raise self._out_of_time()
        raise self._foreign()

    def _in_time(self, response: httpx.Response) -> Iterator[bytes]:
        for chunk in response.iter_bytes():
            yield chunk
            if time.monotonic() > self._until:
                raise self._out_of_time()

    def _told_error(self, error: Mapping[str, Any]) -> PepperError:
        code = error.get("codice")
        code = code if isinstance(code, str) else "risposta_estranea"
        retryable = code in RETRYABLE_CODES if self._status == 200 else self._status in RETRYABLE_STATUSES
        return self._lost(code, str(error.get("messaggio", "errore senza messaggio")), retryable=retryable)

    def _foreign(self) -> PepperError:
        message = f"chi ha risposto (HTTP {self._status}) non è Pepper: controllare l'indirizzo e quello che sta in mezzo"
        retryable = self._key is not None and self._status in RETRYABLE_STATUSES
        return self._lost("risposta_estranea", message, retryable=retryable)

    def _cut(self) -> PepperError:
        return self._lost("risposta_interrotta", "la risposta si è interrotta prima della fine")

    def _out_of_time(self) -> PepperError:
        return self._lost("tempo_scaduto", "la risposta non è arrivata in tempo")

    def _lost(self, code: str, message: str, *, retryable: bool | None = None) -> PepperError:
        """What nobody knows the end of makes sense again only under a key."""
        return PepperError(
            code,
            message,
            retryable=self._key is not None if retryable is None else retryable,
            status=self._status,
            retry_after=_seconds(self._headers.get("retry-after")),
            request_id=self._headers.get("x-request-id"),
            idempotency_key=self._key,
        )


def _decoded(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def events_of(chunks: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Give name and data of server-sent events out of bytes that come in any portions."""
    name = ""
    data: list[str] = []
    for number, line in enumerate(_lines(chunks)):
        text = (line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line).decode("utf-8", "replace")
        if not text:
            if data:
                yield name, "\n".join(data)
            name, data = "", []
            continue
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        # else a comment, whose field has no name, or a field unknown here


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Give the lines that are whole; they end with LF, CR LF or CR."""
    rest: list[bytes] = []
    after_return = False
    for chunk in chunks:
        start = 0
        for end in re.finditer(rb"\r\n|\r|\n", chunk):
            if after_return and end.start() == 0 and end.group() == b"\n":
                start = 1
                continue
            yield b"".join([*rest, chunk[start : end.start()]])
            rest, start = [], end.end()
        rest.append(chunk[start:])
        after_return = chunk.endswith(b"\r") or (after_return and not chunk)


def _work(
    recipe: str,
    extra: Mapping[str, Any] | None,
    documents: Iterable[Document] | Mapping[str, Document],
    **fields: Any,
) -> dict[str, Any]:
    work = {"encode": recipe, **{name: value for name, value in fields.items() if value is not None}}
    if extra:
        work["extra"] = dict(extra)
    named: Iterable[tuple[str | None, Any]] = (
        documents.items() if isinstance(documents, Mapping) else ((None, each) for each in documents)
    )
    room = ATTACHED_BYTES
    entries = []
    for name, document in named:
        if isinstance(document, Mapping):
            entries.append(dict(document))
            continue
        where = os.fspath(document)
        if re.match(r"https?://", where, re.IGNORECASE):
            last = PurePosixPath(unquote(urlsplit(where).path)).name
            entries.append({"nome": name or last or "documento", "url": where})
            continue
        content = _read(where, room)
        room -= len(content)
        entries.append({"nome": name or Path(where).name, "dati": base64.b64encode(content).decode()})
    if entries:
        work["documenti"] = entries
    return work


def _read(where: str, room: int) -> bytes:
    path = Path(where)
    try:
        if path.is_file():
            with path.open("rb") as file:
                content = file.read(room + 1)
            if len(content) > room:
                raise PepperError("documento_troppo_grande", "gli allegati insieme superano 20 MB")
            return content
    except (OSError, ValueError):
        pass
    raise PepperError("documento_non_valido", f"il file '{path.name}' non c'è o non si può leggere")


def _checked(key: str | None) -> str:
    if key is None:
        return uuid.uuid4().hex
    if not re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?", key):
        raise PepperError(
            "richiesta_non_valida", "idempotency_key vuole da 1 a 255 caratteri ASCII stampabili"
        )
    return key


def _seconds(value: str | None) -> float | None:
    """Read a Retry-After: seconds, or a date."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return float(value)
    try:
        instant = parsedate_to_datetime(value)
    except ValueError:
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=timezone.utc)
    return max(0.0, (instant - datetime.now(timezone.utc)).total_seconds())


class _Copy:
    """The kept reply of capacita.php, for all processes of this user on this machine."""

    def __init__(self, base: str, project: str) -> None:
        self._project = project
        name = hashlib.sha256(f"{base}\n{project}".encode()).hexdigest()
        self._path = Path(tempfile.gettempdir()) / f"pepper-capacita-{name}.json"

    def read(self) -> dict[str, Any] | None:
        try:
            found = self._path.lstat()
            # A folder that all users share may hold a file of that name which somebody else has put there.
            if not stat.S_ISREG(found.st_mode):
                return None
            if hasattr(os, "geteuid") and (
                found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o600
            ):
                return None
            if not 0 <= time.time() - found.st_mtime < CAPABILITIES_SECONDS:
                return None
            kept = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return None
        true = isinstance(kept, dict) and kept.get("ok") is True and kept.get("progetto") == self._project
        return kept if true else None

    def write(self, reply: Mapping[str, Any]) -> None:
        """Write it whole or not at all; a copy that can't be kept is no harm."""
        with contextlib.suppress(OSError):
            number, name = tempfile.mkstemp(prefix="pepper", dir=self._path.parent)
            try:
                with os.fdopen(number, "w", encoding="utf-8") as file:
                    json.dump(reply, file, ensure_ascii=False)
                Path(name).replace(self._path)
            except OSError:
                Path(name).unlink(missing_ok=True)
