"""How the clients take replies: whole, in pieces cut anywhere, broken, foreign; and what they ask again."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from tests.clients.drivers import Call, Driver, ask
from tests.clients.teller import (
    RESET,
    STREAM_END,
    STREAM_HEAD,
    Reply,
    Teller,
    answer,
    chunk,
    delta,
    done,
    event,
    fail,
    say,
    stream,
)
from tests.services import LOOPBACK, find_free_port

TEXT = "Perché no? 🌶 Sono le\u2028tre.\r\nE poi?"
PIECES = ["Perché no? 🌶", " Sono le\u2028tre.\r", "\nE poi?"]
BUSY = fail(429, "troppe_richieste", Retry_After="0")


# --- in pieces ------------------------------------------------------------------------------------------------------


def transcript(line_end: str, beginning: str = "") -> bytes:
    """A stream that uses what the format allows."""
    lines = [
        "event: delta",
        "retry: 10",
        ": ping",
        'data: {"text": "Perché no? 🌶"}',
        "id: 3",
        "",
        "",
        "event:delta",
        'data:{"text":',
        'data:  " Sono le\u2028tre.\\r"',
        "data: }",
        "",
        "event: tool_call",
        'data: {"nome": "cerca"}',
        "",
        ":",
        "event: altro",
        "",
        "data",
        "",
        "event: delta",
        'data: {"text": "\\nE poi?"}',
        "",
        "event: done",
        'data: {"ok": true, "risposta": "Perché no? 🌶 Sono le\u2028tre.\\r\\nE poi?", "conversazione": null,',
        'data: "meta": {"versione": "Pepper 6"}}',
        "",
        "",
    ]
    return (beginning + line_end.join(lines)).encode()


@pytest.mark.parametrize("beginning", ["", "\ufeff"], ids=["plain", "bom"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_a_stream_may_be_cut_anywhere(client: Driver, teller: Teller, line_end: str, beginning: str) -> None:
    whole = transcript(line_end, beginning)
    cuts: list[Reply] = [stream([whole]), stream(bytes([byte]) for byte in whole)]
    cuts += [
        stream([whole[:place], whole[place:]])
        for place in range(1, len(whole), 1 if line_end == "\r\n" else 7)
    ]
    teller.script(*cuts)
    for outcome in client.run(*(ask(pieces=True) for _ in cuts)):
        assert outcome.pieces == PIECES
        assert outcome.value == answer(TEXT)
    assert all(seen.body["stream"] is True for seen in teller.seen)


def test_a_stream_may_come_in_any_packets(client: Driver, teller: Teller) -> None:
    """Without chunks, up to the end of the connection, and slowly."""
    head = b"HTTP/1.0 200 OK\r\nContent-Type: Text/Event-Stream\r\n\r\n"
    whole = transcript("\n")
    steps: list[Any] = [head]
    for start in range(0, len(whole), 50):
        steps += [whole[start : start + 50], 0.01]
    teller.script(steps)
    outcome = client.one(ask(pieces=True))
    assert outcome.pieces == PIECES
    assert outcome.value == answer(TEXT)


def test_after_the_end_nothing_is_waited_for(client: Driver, teller: Teller) -> None:
    teller.script([STREAM_HEAD + chunk(delta("Sono le tre.")) + chunk(done()), 25.0])
    began = time.monotonic()
    assert client.value(ask(pieces=True)) == answer()
    assert time.monotonic() - began < 20  # the silence that would be an error


def test_an_answer_that_comes_whole_is_one_piece(client: Driver, teller: Teller) -> None:
    teller.script([say(200, answer())])
    outcome = client.one(ask(pieces=True))
    assert (outcome.pieces, outcome.value) == (["Sono le tre."], answer())


BEGUN = STREAM_HEAD + chunk(delta("Sono "))


@pytest.mark.parametrize(
    ("reply", "code", "retryable", "pieces"),
    [
        ([BEGUN], "risposta_interrotta", True, 1),
        ([BEGUN, RESET], "risposta_interrotta", True, 1),
        ([BEGUN + STREAM_END], "risposta_interrotta", True, 1),
        ([BEGUN + b"7\r\ndat"], "risposta_interrotta", True, 1),
        # `done` without the empty line that ends it
        ([BEGUN + chunk(done()[:-1]) + STREAM_END], "risposta_interrotta", True, 1),
        ([BEGUN + chunk(event("error", {"codice": "errore_ai", "messaggio": "Ahi."})) + STREAM_END], "errore_ai", True, 1),
        ([BEGUN + chunk(event("error", {"codice": "richiesta_rifiutata", "messaggio": "No."}))], "richiesta_rifiutata", False, 1),
        (stream([event("error", {"codice": "richiesta_rifiutata", "messaggio": "No."})]), "richiesta_rifiutata", False, 0),
        (stream([event("error", [])]), "risposta_estranea", False, 0),
        (stream([b"event: error\ndata: <html>\n\n"]), "risposta_estranea", False, 0),
        (stream([event("done", {"ok": True})]), "risposta_estranea", False, 0),
        (stream([event("done", {"ok": True, "risposta": 7})]), "risposta_estranea", False, 0),
    ],
)  # fmt: skip
def test_a_stream_that_fails(
    client: Driver, teller: Teller, *, reply: Reply, code: str, retryable: bool, pieces: int
) -> None:
    """The caller has a part of it, or it is no use: it is not asked again."""
    teller.script(reply)
    error = client.error(ask(pieces=True))
    assert (error.code, error.retryable, error.status) == (code, retryable, 200)
    assert len(error.pieces) == pieces
    assert error.request_id == "req_1"
    assert error.idempotency_key == teller.seen[0].key
    assert len(teller.seen) == 1


@pytest.mark.parametrize(
    "reply",
    [
        [STREAM_HEAD],
        [STREAM_HEAD, RESET],
        [STREAM_HEAD + chunk(b": ping\n\n") + STREAM_END],
        [STREAM_HEAD + chunk(delta("Sono ")[:-1])],
        stream([event("error", {"codice": "ai_non_disponibile", "messaggio": "Giù."})]),
        [BUSY],
        [say(502, b"<html>Bad gateway</html>", kind="text/html")],
        [],
    ],
)
def test_a_stream_of_which_nothing_came_is_asked_again(client: Driver, teller: Teller, reply: Reply) -> None:
    teller.script(reply, reply, stream([delta("Sono le "), delta("tre."), done()]))
    outcome = client.one(ask(pieces=True))
    assert outcome.value == answer()
    assert outcome.pieces == ["Sono le ", "tre."]
    assert len({seen.key for seen in teller.seen}) == 1
    assert len(teller.seen) == 3


def test_the_callers_own_exception_ends_the_call(client: Driver, teller: Teller) -> None:
    for begun in ([BEGUN, 25.0], [say(200, answer())]):
        teller.script(begun)
        outcome = client.one(ask(pieces=True, stops=True))
        assert outcome.stopped == "enough"
        assert len(outcome.pieces) == 1
        assert len(teller.seen) == 1


# --- asked again ------------------------------------------------------------------------------------------------------

AGAIN = [
    ([fail(429, "troppe_richieste", Retry_After="0")], "troppe_richieste"),
    ([fail(502, "errore_ai")], "errore_ai"),
    ([fail(503, "ai_non_disponibile", Retry_After="0")], "ai_non_disponibile"),
    ([fail(503, "servizio_non_disponibile", Retry_After=formatdate(0, usegmt=True))], "servizio_non_disponibile"),
    ([fail(503, "codice_nuovo", Retry_After="presto")], "codice_nuovo"),
    ([say(502, b"<html>Bad gateway</html>", kind="text/html")], "risposta_estranea"),
    ([say(503, b"", kind="text/html")], "risposta_estranea"),
    ([say(429, {"errore": "slow down"})], "risposta_estranea"),
    ([], "nessuna_risposta"),
    ([RESET], "nessuna_risposta"),
    ([b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"], "risposta_interrotta"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "code"), AGAIN)
def test_what_is_asked_again(client: Driver, teller: Teller, reply: Reply, code: str) -> None:
    """Under one key, with the same words; and no more than three times."""
    teller.script(reply, reply, reply, [say(200, answer())])
    assert client.value(ask()) == answer()
    assert len({seen.key for seen in teller.seen}) == 1
    assert all(seen.body == teller.seen[0].body for seen in teller.seen)
    teller.script(reply, reply, reply, reply)
    error = client.error(ask(idempotenza="mia"))
    assert (error.code, error.retryable) == (code, True)
    assert error.idempotency_key == "mia"
    assert [seen.key for seen in teller.seen] == ["mia"] * 4


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        *(
            ([fail(status, code)], code)
            for status, code in (
                (400, "richiesta_non_valida"),
                (401, "non_autorizzato"),
                (403, "documenti_non_abilitati"),
                (404, "encode_sconosciuto"),
                (405, "richiesta_non_valida"),
                (413, "contenuto_troppo_grande"),
                (422, "richiesta_rifiutata"),
                (500, "errore_interno"),
            )
        ),
        ([say(200, b"<html>Welcome</html>", kind="text/html")], "risposta_estranea"),
        ([say(200, b"")], "risposta_estranea"),
        ([say(200, b"[]")], "risposta_estranea"),
        ([say(200, {"risposta": "senza ok"})], "risposta_estranea"),
        ([say(200, {"ok": "true", "risposta": "x"})], "risposta_estranea"),
        ([say(200, {"ok": True})], "risposta_estranea"),
        ([say(404, b"<html>Not found</html>", kind="text/html")], "risposta_estranea"),
        ([say(404, {"ok": True, "risposta": "x"})], "risposta_estranea"),
    ],
)
def test_what_is_not_asked_again(client: Driver, teller: Teller, reply: Reply, code: str) -> None:
    teller.script(reply)
    error = client.error(ask())
    assert (error.code, error.retryable) == (code, False)
    assert len(teller.seen) == 1


def test_a_redirect_is_not_followed(client: Driver, teller: Teller) -> None:
    """The key would go along."""
    teller.script([say(302, b"", Location=f"{teller.url}/altrove")])
    error = client.error(ask())
    assert (error.code, error.status, len(teller.seen)) == ("risposta_estranea", 302, 1)


def test_a_refusal_counts_though_the_connection_broke(client: Driver, teller: Teller) -> None:
    """It may break on a large body that was still being sent; what is here whole is the reply."""
    refusal = fail(413, "contenuto_troppo_grande").replace(b"Content-Length: ", b"Content-Length: 9")
    teller.script([refusal], [refusal, RESET])
    for outcome in client.run(ask(), ask()):
        assert (outcome.code, outcome.status) == ("contenuto_troppo_grande", 413)


def test_what_came_before_the_reply_does_not_count(client: Driver, teller: Teller) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 5000\r\nX-Request-Id: req_no\r\n\r\n"
    teller.script([hints + fail(502, "errore_ai")], [hints + fail(400, "richiesta_non_valida")])
    error = client.error(ask())
    assert (error.code, error.request_id, error.retry_after) == ("richiesta_non_valida", None, None)


def test_who_waited_too_long_for_pepper_is_told_so(client: Driver, teller: Teller) -> None:
    """All of the call's time is over: nobody should begin anew without being asked."""
    teller.script([say(504, b"<html>Gateway timeout</html>", kind="text/html")])
    error = client.error(ask())
    assert (error.code, error.retryable, error.status, len(teller.seen)) == ("tempo_scaduto", True, 504, 1)


def test_the_time_to_wait_is_obeyed(client: Driver, teller: Teller) -> None:
    client.settings.pauses = (0.0,)
    teller.script([fail(503, "ai_non_disponibile", Retry_After="1")], [say(200, answer())])
    client.value(ask())
    assert teller.seen[1].at - teller.seen[0].at >= 1
    client.settings.pauses = (1.25,)
    teller.script([fail(502, "errore_ai")], [say(200, answer())])
    client.value(ask())
    assert teller.seen[1].at - teller.seen[0].at >= 1


@pytest.mark.parametrize("seconds", [61, 40_000])
def test_nobody_waits_for_midnight(client: Driver, teller: Teller, seconds: int) -> None:
    client.settings.seconds = 300
    for value in (str(seconds), formatdate(time.time() + seconds + 5, usegmt=True)):
        teller.script([fail(429, "budget_esaurito", Retry_After=value)])
        error = client.error(ask())
        assert (error.code, error.retryable, len(teller.seen)) == ("budget_esaurito", True, 1)
        assert error.retry_after is not None
        assert error.retry_after >= seconds


def test_no_wait_goes_beyond_the_calls_time(client: Driver, teller: Teller) -> None:
    client.settings.seconds = 5
    teller.script([fail(503, "ai_non_disponibile", Retry_After="6")])
    assert client.error(ask()).code == "ai_non_disponibile"


def test_nobody_there(make_client: Callable[..., Driver]) -> None:
    error = make_client(f"http://{LOOPBACK}:{find_free_port()}").error(ask())
    assert (error.code, error.retryable, error.status) == ("nessuna_risposta", True, 0)


SLOW_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n"


@pytest.mark.parametrize(
    ("reply", "pieces"),
    [
        ([25.0], False),
        ([SLOW_HEAD, *([b" ", 0.2] * 50)], False),
        ([BEGUN, *([chunk(b": ping\n\n"), 0.2] * 50)], True),
    ],
    ids=["silence", "drops", "pings"],
)
def test_the_calls_time_is_over(client: Driver, teller: Teller, reply: Reply, pieces: bool) -> None:
    client.settings.seconds = 1
    teller.script(reply)
    error = client.error(ask(pieces=pieces))
    assert (error.code, error.retryable, len(teller.seen)) == ("tempo_scaduto", True, 1)


def test_a_silent_stream_is_given_up(client: Driver, teller: Teller) -> None:
    client.settings.silence = 1
    teller.script([BEGUN, 25.0])
    error = client.error(ask(pieces=True))
    assert (error.code, error.retryable, error.pieces) == ("tempo_scaduto", True, ["Sono "])


# --- deferred work ----------------------------------------------------------------------------------------------------

DEFER = Call("pepper_differito", {"encode": "riassumi", "contenuti": ["uno"]})


@pytest.mark.parametrize(("reply", "code"), AGAIN)
def test_deferred_work_is_handed_in_once(client: Driver, teller: Teller, reply: Reply, code: str) -> None:
    """Whether it makes sense to do it again is the caller's to know: only a clear refusal says so."""
    teller.script(reply)
    error = client.error(DEFER)
    clear = code not in {"risposta_estranea", "nessuna_risposta", "risposta_interrotta"}
    assert (error.code, error.retryable, error.idempotency_key) == (code, clear, None)
    assert len(teller.seen) == 1
    assert teller.seen[0].key is None


def test_deferred_work_out_of_time(client: Driver, teller: Teller) -> None:
    client.settings.seconds = 1
    teller.script([25.0])
    error = client.error(DEFER)
    assert (error.code, error.retryable) == ("tempo_scaduto", False)


def test_deferred_work_without_a_number(client: Driver, teller: Teller) -> None:
    teller.script([say(202, {"ok": True})])
    assert client.error(DEFER).code == "risposta_estranea"


def test_deferred_work_that_reached_nobody(make_client: Callable[..., Driver]) -> None:
    error = make_client(f"http://{LOOPBACK}:{find_free_port()}").error(DEFER)
    assert (error.code, error.retryable) == ("nessuna_risposta", True)


# --- the others -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        Call("pepper_pratica", {"pratica": "prt_1"}),
        Call("pepper_capacita", {}),
        Call("pepper_conoscenza_carica", {"nome": "a", "testo": "b"}),
        Call("pepper_conoscenza_elenco", {}),
        Call("pepper_conoscenza_togli", {"id": 1}),
    ],
    ids=lambda call: call.function,
)
def test_every_function_asks_again_and_tells_errors(client: Driver, teller: Teller, call: Call) -> None:
    teller.script([BUSY], [], [fail(404, "pratica_sconosciuta", "Non c'è.", X_Request_Id="req_9")])
    error = client.error(call)
    assert (error.code, error.status, error.request_id) == ("pratica_sconosciuta", 404, "req_9")
    assert "Non c'è." in error.text
    keys = {seen.key for seen in teller.seen}
    assert len(keys) == 1
    assert None not in keys


def test_the_key_stays_out_of_what_is_told(client: Driver, teller: Teller) -> None:
    """`Driver.run` looks for it in every error: here the server tells it back."""
    teller.script(
        [fail(400, "richiesta_non_valida", "Manca un campo.")], [say(400, b"what?", kind="text/plain")]
    )
    for outcome in client.run(ask(), ask()):
        assert outcome.code
