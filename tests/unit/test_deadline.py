"""Deadlines end waits that take too long, and nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.deadline import Deadline, Patience

SOON = 0.02
LONG = 60.0


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_wait_beyond_the_deadline_is_ended() -> None:
    deadline = Deadline(SOON)
    with pytest.raises(TimeoutError), deadline:
        await forever()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    deadline.close()


async def test_one_deadline_guards_one_wait_after_the_other_and_not_what_is_between() -> None:
    deadline = Deadline(2 * SOON)
    with deadline:
        await asyncio.sleep(0)
    await asyncio.sleep(4 * SOON)  # nobody is ended here
    with pytest.raises(TimeoutError), deadline:
        await forever()
    deadline.close()


async def test_what_does_not_wait_is_not_ended_however_late_it_is() -> None:
    deadline = Deadline(-1)
    with deadline:
        done = True
    await asyncio.sleep(SOON)
    assert done
    deadline.close()


async def test_a_deadline_that_was_moved_rings_later() -> None:
    deadline = Deadline(SOON)
    deadline.move(5 * SOON)
    began = time.monotonic()
    with pytest.raises(TimeoutError), deadline:
        await forever()
    assert time.monotonic() - began > 3 * SOON
    deadline.move(LONG)
    with deadline:
        await asyncio.sleep(2 * SOON)
    deadline.close()


async def test_a_deadline_can_be_let_pass_now() -> None:
    deadline = Deadline(LONG)

    async def wait() -> None:
        with deadline:
            await forever()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    deadline.expire()
    with pytest.raises(TimeoutError):
        await waiting
    with pytest.raises(TimeoutError), deadline:  # and it stays passed
        await forever()
    deadline.close()


@pytest.mark.parametrize("guard", ["deadline", "patience"])
async def test_a_cancellation_by_somebody_else_stays_one(guard: str) -> None:
    async def wait() -> None:
        with Deadline(LONG) if guard == "deadline" else Patience(LONG)():
            await forever()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancellation_at_the_same_time_wins() -> None:
    patience = Patience(SOON)

    async def wait() -> None:
        with patience():
            await forever()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(SOON, waiting.cancel)
    time.sleep(2 * SOON)  # noqa: ASYNC251 - so that both come in one turn
    with pytest.raises((asyncio.CancelledError, TimeoutError)) as raised:
        await waiting
    assert waiting.cancelled() == isinstance(raised.value, asyncio.CancelledError)


async def test_all_who_are_equally_patient_lose_it_in_turn_and_those_who_have_ended_do_not() -> None:
    patience, ended = Patience(4 * SOON), []

    async def wait(name: str, seconds: float) -> None:
        try:
            with patience():
                await asyncio.sleep(seconds)
        except TimeoutError:
            ended.append(name)

    first = asyncio.create_task(wait("first", LONG))
    quick = asyncio.create_task(wait("quick", 0))
    await asyncio.sleep(2 * SOON)
    second = asyncio.create_task(wait("second", LONG))
    await asyncio.gather(first, quick)
    assert ended == ["first"]
    await second
    assert ended == ["first", "second"]
    with patience():  # a new timer is made
        await asyncio.sleep(0)


async def test_the_inner_of_two_guards_leaves_the_outer_in_peace() -> None:
    outer, inner = Patience(LONG), Deadline(SOON)
    with outer():
        with pytest.raises(TimeoutError), inner:
            await forever()
        await asyncio.sleep(0)
    inner.close()


def test_a_patience_outlives_its_loop() -> None:
    patience = Patience(SOON)

    async def lose() -> None:
        with pytest.raises(TimeoutError), patience():
            await forever()

    async def leave_one_waiting() -> None:
        waiting = asyncio.create_task(lose())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))

    asyncio.run(leave_one_waiting())
    asyncio.run(lose())
