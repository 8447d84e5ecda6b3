"""Dilem over REST, on both places where things are kept and two workers: sessions, cases, credits, votes, reports."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from gateway.dilem.contract import DecisionResponse, Feedback, FeedbackAck, Session
from gateway.dilem.operations import API, OPERATIONS
from tests.e2e.agents import JSON, QUESTION, RESULT, Agent, body, fresh_case, refusal
from tests.e2e.harness import Gateway
from tests.e2e.waiting import eventually

WORKERS = 2
LIMIT = 6
ENVIRONMENT = {
    "PEPPER_DILEM": "on",
    "PEPPER_DILEM_DAILY_LIMIT": str(LIMIT),
    "PEPPER_DILEM_SESSIONS_PER_HOUR": "100000",
    "PEPPER_DILEM_IP_PER_MINUTE": "1000000",
    "PEPPER_TRUSTED_PROXIES": "127.0.0.1",
}
NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
REPORT: dict[str, Any] = {
    "kind": "general",
    "message": "Va bene così.",
    "email": "",
    "language": "it",
    "source": "agent",
    "version": "unknown",
    "screen": "other",
    "response": None,
}
_addresses = itertools.count(1)


@pytest.fixture(scope="module")
def served(served: Gateway) -> Gateway:
    done = served.command("project", "set", "dilem", "--sandbox")
    assert done.returncode == 0, done.stderr
    return served


@pytest.fixture
async def agent(gateway: Gateway) -> AsyncIterator[Agent]:
    """An identity at an address of its own, so that no test counts for another; business time stands still."""
    gateway.set_clock(NOON)
    number = next(_addresses)
    address = f"198.51.{number // 200}.{number % 200 + 1}"
    async with httpx.AsyncClient(
        base_url=gateway.address, headers={"x-forwarded-for": address}, timeout=60
    ) as client:
        yield await Agent.started(client)
    gateway.free_clock()


async def test_the_life_of_a_dilemma(agent: Agent) -> None:
    case = fresh_case()
    before = await agent.usage(case)
    assert before["case"] == {"id": case, "admitted": False, "completed": False}
    assert before["dilemmas"] == {"used": 0, "limit": LIMIT, "remaining": LIMIT}
    assert before["voice"] == {
        "seconds_used": 0,
        "seconds_reserved": 0,
        "seconds_remaining": 1200,
        "seconds_limit": 1200,
        "max_seconds": 60,
    }
    assert before["budget"] == {"daily_usd": 5, "available": True}
    question = await agent.decided(case, QUESTION)
    assert question["type"] == "clarification"
    during = await agent.usage(case)
    assert during["case"] == {"id": case, "admitted": True, "completed": False}
    assert during["dilemmas"] == {"used": 1, "limit": LIMIT, "remaining": LIMIT - 1}
    answers = [f"{question['question']} Il tempo."]
    result = await agent.decided(case, "Treno o auto?", refinements=answers, clarification_count=1)
    assert result["type"] == "result"
    after = await agent.usage(case)
    assert after["case"] == {"id": case, "admitted": True, "completed": True}
    assert after["dilemmas"]["used"] == 1
    assert after["collective"]["completed"] == before["collective"]["completed"] + 1
    assert refusal(await agent.decide(case)) == (409, "case_completed")
    assert (await agent.usage())["case"] == {"id": None, "admitted": False, "completed": False}
    card = await agent.client.post(
        f"{API}/result-card",
        json={"result": result, "language": "de", "theme": "dark"},
        headers=agent.headers(),
    )
    assert (card.status_code, card.headers["content-type"]) == (200, "image/png")
    assert card.headers["content-disposition"] == 'attachment; filename="dilem-dark-de.png"'
    assert card.headers["cache-control"] == "no-store"
    assert card.content.startswith(b"\x89PNG")
    assert (await agent.usage())["dilemmas"]["used"] == 1


async def test_a_session_is_renewed_expires_and_is_remembered(gateway: Gateway, agent: Agent) -> None:
    renewed = body(await agent.client.post(f"{API}/session", headers=agent.headers(), json={}), Session)
    assert renewed == {"session": agent.token, "expires_in": 7_776_000}
    gateway.set_clock(NOON + timedelta(days=90, microseconds=-1))
    await agent.usage()
    for days, code in ((90, "session_expired"), (119.99, "session_expired"), (120, "session_invalid")):
        gateway.set_clock(NOON + timedelta(days=days))
        for method, path in (("GET", "/usage"), ("POST", "/session")):
            response = await agent.client.request(method, API + path, headers=agent.headers())
            assert refusal(response) == (403, code)
    gateway.set_clock(NOON + timedelta(days=89))
    body(await agent.client.post(f"{API}/session", headers=agent.headers()), Session)
    gateway.set_clock(NOON + timedelta(days=178))
    await agent.usage()


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [""],
        ["Bearer"],
        ["Basic {token}"],
        ["{token}"],
        ["Bearer {token}x"],
        ["Bearer dls_0000000000000000000000000000000000000000000"],
        ["Bearer {token}", "Bearer {token}"],
        ["Bearer {token} {token}"],
    ],
)
async def test_a_token_that_is_not_good_is_refused_never_replaced(agent: Agent, shown: list[str]) -> None:
    headers = [("Authorization", value.format(token=agent.token)) for value in shown]
    response = await agent.client.get(f"{API}/usage", headers=headers)
    assert refusal(response) == (403, "session_invalid" if shown else "session_required")
    assert agent.token not in response.text
    if shown:
        assert refusal(await agent.client.post(f"{API}/session", headers=headers)) == (403, "session_invalid")


async def test_starting_a_session_takes_no_body(agent: Agent) -> None:
    for sent in (b"", b"{}", b" \n{ }\n"):
        body(
            await agent.client.post(f"{API}/session", content=sent, headers={"content-type": "x/y"}), Session
        )
    for sent, code in (
        (f'{{"session":"{agent.token}"}}'.encode(), "invalid_input"),
        (b"[]", "invalid_json"),
        (b"session", "invalid_json"),
    ):
        assert refusal(await agent.client.post(f"{API}/session", content=sent)) == (422, code)


# --- credits --------------------------------------------------------------------------------------------------------


async def test_parallel_first_turns_of_one_case_take_one_credit(agent: Agent) -> None:
    case = fresh_case()
    text = f"{QUESTION} [[prova:lento:1]]"
    found = await asyncio.gather(*(agent.decide(case, text) for _ in range(12)))
    won = [response for response in found if response.status_code == 200]
    assert len(won) == 1
    refused = [refusal(response) for response in found if response.status_code != 200]
    assert refused == [(429, "case_in_progress")] * 11
    assert (await agent.usage(case))["dilemmas"]["used"] == 1


async def test_parallel_dilemmas_never_pass_the_limit_and_the_day_renews_it(
    gateway: Gateway, agent: Agent
) -> None:
    found = await asyncio.gather(*(agent.decide(fresh_case()) for _ in range(3 * LIMIT)))
    assert sum(response.status_code == 200 for response in found) == LIMIT
    refused = [response for response in found if response.status_code != 200]
    assert {refusal(response) for response in refused} == {(429, "credits_exhausted")}
    assert {response.json()["resets_at"] for response in refused} == {"2027-03-02T00:00:00Z"}
    assert {response.headers["retry-after"] for response in refused} == {"43200"}
    told = await agent.usage()
    assert (told["day"], told["resets_at"]) == ("2027-03-01", "2027-03-02T00:00:00Z")
    assert told["dilemmas"] == {"used": LIMIT, "limit": LIMIT, "remaining": 0}
    gateway.set_clock(NOON + timedelta(hours=12))
    told = await agent.usage()
    assert (told["day"], told["dilemmas"]["used"]) == ("2027-03-02", 0)
    await agent.decided(fresh_case())


async def test_an_admitted_case_goes_on_without_credits_and_over_midnight(
    gateway: Gateway, agent: Agent
) -> None:
    case = fresh_case()
    await agent.decided(case, QUESTION)
    for _ in range(LIMIT - 1):
        await agent.decided(fresh_case())
    assert refusal(await agent.decide(fresh_case())) == (429, "credits_exhausted")
    assert (await agent.decided(case, QUESTION))["type"] == "clarification"
    gateway.set_clock(NOON + timedelta(days=1))
    assert (await agent.decided(case))["type"] == "result"
    assert (await agent.usage(case))["dilemmas"]["used"] == 0


async def test_an_address_has_three_times_an_identitys_credits(agent: Agent) -> None:
    agents = [await Agent.started(agent.client) for _ in range(4)]
    found = await asyncio.gather(*(one.decide(fresh_case()) for one in agents for _ in range(LIMIT)))
    assert sum(response.status_code == 200 for response in found) == 3 * LIMIT
    refused = {refusal(response) for response in found if response.status_code != 200}
    assert refused == {(429, "rate_limited")}


async def test_what_was_not_sent_takes_no_credit_and_what_failed_keeps_it(agent: Agent) -> None:
    case = fresh_case()
    assert (
        refusal(await agent.decide(case, "Treno o auto? [[prova:budget_esaurito]]"))[1] == "budget_exhausted"
    )
    told = await agent.usage(case)
    assert (told["dilemmas"]["used"], told["case"]["admitted"]) == (0, False)
    failed = await agent.decide(case, "Treno o auto? [[prova:errore_ai]]")
    assert refusal(failed) == (200, "provider_error")
    told = await agent.usage(case)
    assert (told["dilemmas"]["used"], told["case"]) == (1, {"id": case, "admitted": True, "completed": False})
    await agent.decided(case)
    assert (await agent.usage(case))["dilemmas"]["used"] == 1


async def test_two_identities_may_use_one_case_id(agent: Agent) -> None:
    other = await Agent.started(agent.client)
    case = fresh_case()
    await agent.decided(case)
    await other.decided(case)
    assert refusal(await other.decide(case)) == (409, "case_completed")


async def test_twenty_four_turns_and_no_more(agent: Agent) -> None:
    case = fresh_case()
    for _ in range(24):
        await agent.decided(case, QUESTION)
    assert refusal(await agent.decide(case)) == (429, "case_turn_limit")


# --- votes and reports ----------------------------------------------------------------------------------------------


async def test_a_vote_is_the_owners_latest(gateway: Gateway, agent: Agent) -> None:
    result = await agent.decided(fresh_case())
    result_id = result["result_id"]
    stranger = await Agent.started(agent.client)
    assert body(await agent.vote(result_id), Feedback) == {
        "result_id": result_id,
        "helpful": None,
        "reason": None,
    }

    async def vote(who: Agent, **fields: Any) -> httpx.Response:
        return await who.client.post(
            f"{API}/feedback", json={"result_id": result_id} | fields, headers=who.headers()
        )

    told = body(await vote(agent, helpful=False, reason="too_vague"), Feedback)
    assert told == {"result_id": result_id, "helpful": False, "reason": "too_vague"}
    assert body(await agent.vote(result_id), Feedback) == told
    for nobody in (await vote(stranger, helpful=True), await stranger.vote(result_id)):
        assert refusal(nobody) == (404, "result_not_found")
    foreign, absent = await stranger.vote(result_id), await stranger.vote("f" * 32)
    assert foreign.content == absent.content
    volatile = {"x-request-id", "date"}
    assert {name: value for name, value in foreign.headers.items() if name not in volatile} == {
        name: value for name, value in absent.headers.items() if name not in volatile
    }
    assert body(await vote(agent, helpful=False), Feedback)["reason"] is None
    assert body(await vote(agent, helpful=True), Feedback)["helpful"] is True
    assert refusal(await vote(agent, helpful=True, reason="too_vague")) == (422, "invalid_input")
    for bad in ("F" * 32, "0" * 31, "0" * 33, "%0A" + "0" * 32, "a b"):
        assert refusal(await agent.vote(bad)) == (422, "invalid_input")
    gateway.set_clock(NOON + timedelta(days=30, microseconds=-1))
    body(await agent.vote(result_id), Feedback)
    gateway.set_clock(NOON + timedelta(days=30))
    expired = await agent.vote(result_id)
    assert refusal(expired) == (404, "result_not_found")
    assert expired.content == absent.content


async def test_a_report_is_stored_once_for_the_operator(gateway: Gateway, agent: Agent) -> None:
    async def send(who: Agent, **fields: Any) -> httpx.Response:
        return await who.client.post(
            f"{API}/user-feedback", json={"request_id": "0" * 32} | REPORT | fields, headers=who.headers()
        )

    for response in await asyncio.gather(*(send(agent) for _ in range(8))):
        assert body(response, FeedbackAck) == {"ok": True}
    assert refusal(await send(agent, message="Un altro testo.")) == (409, "request_id_conflict")
    body(await send(await Agent.started(agent.client), message="Un altro testo."), FeedbackAck)
    # What is refused does not count: four more are let in.
    for _ in range(6):
        assert refusal(await send(agent, message="ab")) == (422, "invalid_input")
    answers = {"kind": "recommendation", "text": "Il treno.", "reference": "a:1"}
    for number in range(1, 5):
        body(await send(agent, request_id=f"{number:032x}", kind="response", response=answers), FeedbackAck)
    assert refusal(await send(agent, request_id="a" * 32)) == (429, "rate_limited")
    body(await send(agent), FeedbackAck)
    listed = await asyncio.to_thread(gateway.command, "dilem", "reports", "--json")
    told = json.loads(listed.stdout)
    assert sorted(one["id"] for one in told) == sorted(["0" * 32] * 2 + [f"{n:032x}" for n in range(1, 5)])
    assert {one["ricevuta_il"] for one in told} == {"2027-03-01 13:00:00"}
    reported = next(one for one in told if one["id"].endswith("4"))
    assert (reported["tipo"], reported["messaggio"]) == ("response", "Va bene così.")
    assert reported["risposta"] == {"tipo": "recommendation", "testo": "Il treno.", "riferimento": "a:1"}


# --- callers who leave, clients with cookie jars, other methods -----------------------------------------------------


async def test_a_caller_who_leaves_has_still_decided(agent: Agent) -> None:
    case = fresh_case()
    with pytest.raises(httpx.TimeoutException):
        await agent.client.post(
            f"{API}/decide",
            json={"text": f"{RESULT} [[prova:lento:1]]", "language": "it"},
            headers=agent.headers(case),
            timeout=0.4,
        )
    assert (await agent.usage(case))["case"]["admitted"]

    async def completed() -> bool:
        return bool((await agent.usage(case))["case"]["completed"])

    await eventually(completed, 10, pause=0.2)
    assert refusal(await agent.decide(case)) == (409, "case_completed")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_the_order_of_the_first_checks(agent: Agent, operation: Any) -> None:
    path = API + operation.path.format(result_id="0" * 32)
    evil = {"origin": "https://evil.example", "cookie": "a=b"}
    other = "DELETE"
    response = await agent.client.request(other, path, headers=evil)
    assert refusal(response) == (405, "method_not_allowed")
    allowed = response.headers["allow"].split(", ")
    assert operation.method in allowed
    assert refusal(await agent.client.options(path))[0] == 405
    assert refusal(await agent.client.options(path, headers={"origin": gateway_origin(agent)}))[0] == 405
    preflight = await agent.client.options(
        path, headers={"origin": "https://evil.example", "access-control-request-method": "POST"}
    )
    assert refusal(preflight) == (403, "origin_rejected")
    ask = agent.client.request
    assert refusal(await ask(operation.method, path, headers=evil)) == (403, "cookies_forbidden")
    del evil["cookie"]
    assert refusal(await ask(operation.method, path, headers=evil)) == (403, "origin_rejected")
    if not operation.anonymous:
        refused = await ask(operation.method, path, headers=JSON, content=b"x" * 300_001)
        assert refusal(refused) == (403, "session_required")
    if operation.checks_media_type:
        for wrong in ({}, {"content-type": "text/plain"}, JSON | {"content-encoding": "gzip"}):
            refused = await ask(operation.method, path, headers=agent.headers() | wrong, content=b"{")
            assert refusal(refused) == (415, "unsupported_media_type")
    else:
        refused = await ask(
            operation.method, path, headers=agent.headers(**{"content-encoding": "gzip"}), content=b"{}"
        )
        assert refusal(refused) == (422, "invalid_input")
    refused = await ask(operation.method, path, headers=agent.headers() | JSON, content=b"x" * 300_001)
    assert refusal(refused) == (413, "body_too_large")


def gateway_origin(agent: Agent) -> str:
    return str(agent.client.base_url).rstrip("/")


async def test_decide_checks_its_body_before_its_case(agent: Agent) -> None:
    async def decide(content: bytes, **headers: str) -> tuple[int, str]:
        response = await agent.client.post(
            f"{API}/decide", content=content, headers=agent.headers() | JSON | headers
        )
        return refusal(response)

    fine = b'{"text":"a","language":"en"}'
    bad_case = {"x-dilem-case-id": "a b"}
    assert await decide(b"{", **bad_case) == (422, "invalid_json")
    assert await decide(b'{"text":"a"}', **bad_case) == (422, "invalid_input")
    long = b'{"text":"%s","language":"en","refinements":["%s","%s","%s","%s"]}' % ((b"a" * 4_900,) * 5)
    assert await decide(long, **bad_case) == (422, "input_too_long")
    assert await decide(fine, **bad_case) == (422, "case_id_invalid")
    assert await decide(fine, **{"x-dilem-case-id": ""}) == (422, "case_id_required")
    assert await decide(fine) == (422, "case_id_required")
    assert await decide(fine, **{"content-type": "text/plain"}) == (422, "invalid_input")
    usage = await agent.client.get(f"{API}/usage", headers=agent.headers("a b"))
    assert refusal(usage) == (422, "case_id_invalid")


async def test_the_longest_turn_fits_the_limit_of_bytes(agent: Agent) -> None:
    text = "\\ud83d\\ude00" * 6_000
    sent = f'{{"text":"{text}","language":"en","refinements":["{text}","{text}","{text}"],"force_decision":true}}'
    assert len(sent) < 300_000
    response = await agent.client.post(
        f"{API}/decide", content=sent.encode(), headers=agent.headers(fresh_case()) | JSON
    )
    assert body(response, DecisionResponse)["type"] == "result"


async def test_unknown_addresses_and_heads(agent: Agent) -> None:
    for path in ("", "/", "/nothing", "/usage/", "/feedback/", "/feedback/a/b", "/Usage", "/session/x"):
        response = await agent.client.post(API + path, headers={"cookie": "a=b"})
        assert refusal(response) == (404, "not_found"), path
    head = await agent.client.head(f"{API}/usage", headers=agent.headers())
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0
    assert refusal(await agent.client.get(f"{API}/feedback")) == (405, "method_not_allowed")
    assert refusal(await agent.client.get(f"{API}/usage?token={agent.token}")) == (403, "session_required")


async def test_nothing_private_is_logged(gateway: Gateway, agent: Agent) -> None:
    secret = "PAROLA-SEGRETA"
    await agent.decided(fresh_case(), f"{secret} o auto? [[prova:risultato]]")
    await agent.client.post(
        f"{API}/user-feedback",
        json={"request_id": "b" * 32} | REPORT | {"message": secret},
        headers=agent.headers(),
    )
    await agent.client.get(f"{API}/{secret}", headers=agent.headers())
    assert secret not in gateway.log()
    assert agent.token not in gateway.log()
