"""What a worker holds: over many calls that succeed, fail and are given up, and while streams are open."""

from __future__ import annotations

import time
from collections.abc import Mapping

import click

from tests.bench.caller import NUMBER, Job
from tests.bench.cases import CONTENT, request
from tests.bench.mock_provider import BAD, SILENT
from tests.bench.processes import Callers, Gateway
from tests.bench.stage import stage

BLOCKS = 5
KINDS = 6
CALLERS = 32
STREAMS = 1_000
HELD_SECONDS = 16.0
LONG_SECONDS = 300.0


def measure_memory(calls: int) -> None:
    with stage() as played:
        for one in played.left_out:
            click.echo(f"left out: {one}")
        for gateway in played.gateways:
            click.echo(f"{gateway.name}: {gateway.memory_mb:.0f} MB after the start")
            for block in range(1, BLOCKS + 1):
                done = sum(
                    played.callers.carry_out(job).calls
                    for job in _jobs(gateway, calls // BLOCKS // KINDS).values()
                )
                click.echo(f"  {gateway.memory_mb:6.1f} MB after block {block} of {done:,} calls")
            _hold_streams(gateway, played.callers)


def _jobs(gateway: Gateway, calls: int) -> dict[str, Job]:
    """Calls that succeed, and one kind for each way in which a call fails: so many of each."""

    def job(
        fields: Mapping[str, object], status: int, key: str = gateway.keys["bench"], **more: float
    ) -> Job:
        return Job(
            port=gateway.port,
            callers=CALLERS,
            seconds=LONG_SECONDS,
            calls=calls,
            request=request("bench", key, fields),
            status=status,
            leave_after=more.get("leave_after"),
        )

    free = {"encode": "libero", "contenuto": CONTENT}
    return {
        "succeeding": job(free, 200),
        "into the cache": job({"encode": "riassumi", "contenuto": f"{NUMBER.decode()} {CONTENT}"}, 200),
        "refused by the provider": job({**free, "contenuto": BAD}, 502),
        "wrong key": job(free, 401, "pk_" + "x" * 43),
        "unknown recipe": job({**free, "encode": "nessuna"}, 404),
        "given up": job({**free, "contenuto": SILENT, "stream": True}, 200, leave_after=0.1),
    }


def _hold_streams(gateway: Gateway, callers: Callers) -> None:
    before = gateway.memory_mb
    fields = {"encode": "libero", "contenuto": SILENT, "stream": True}
    callers.begin(
        Job(
            port=gateway.port,
            callers=STREAMS,
            seconds=HELD_SECONDS,
            calls=STREAMS,
            request=request("bench", gateway.keys["bench"], fields),
            leave_after=HELD_SECONDS,
        )
    )
    time.sleep(HELD_SECONDS / 4)
    cpu, began = gateway.cpu_seconds, time.monotonic()
    time.sleep(HELD_SECONDS / 2)
    share = (gateway.cpu_seconds - cpu) / (time.monotonic() - began)
    held = gateway.memory_mb
    callers.result()
    time.sleep(1)
    click.echo(
        f"  {held:6.1f} MB with {STREAMS} idle streams ({(held - before) * 1000 / STREAMS:.0f} kB each, "
        f"{share:.1%} of a core), {gateway.memory_mb:.1f} MB after them"
    )
