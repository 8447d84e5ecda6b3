"""`make bench`: what a call costs, in one worker on one core; see `docs/performance.md`."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

import click
import msgspec

from tests.bench import panel, report, vectors
from tests.bench.caller import Job
from tests.bench.cases import CASES, Case
from tests.bench.growth import measure_growth
from tests.bench.knowledge.quality import measure_quality
from tests.bench.machine import description, load_average
from tests.bench.memory import measure_memory
from tests.bench.processes import ROOT, BenchError, Callers, Gateway, Server
from tests.bench.report import Round, Row
from tests.bench.stage import EMBEDDED, PRODUCTION, Stage, stage

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
ROUNDS, SECONDS = 3, 1.5
QUICK_ROUNDS, QUICK_SECONDS = 1, 0.6


@click.command()
@click.option("--quick", is_flag=True, help="One short round: about two minutes.")
@click.option("--peers/--no-peers", default=True, help="Beside other gateways, installed under build/bench.")
@click.option("--memory", is_flag=True, help="Measure memory instead: some minutes.")
@click.option("--growth", is_flag=True, help="Measure beside a large installation instead: some minutes.")
@click.option("--rows", default=panel.ROWS, show_default=True, help="With --growth: of its ledger.")
@click.option("--calls", default=30_000, show_default=True, help="With --memory: how many.")
@click.option("--knowledge", is_flag=True, help="Measure how well knowledge finds instead: some minutes.")
@click.option("--curve", is_flag=True, help="With --knowledge: also around the chosen floors.")
@click.option("--write", is_flag=True, help=f"Put the figures into {PAGE.relative_to(ROOT)}.")
@click.option(
    "--only",
    default="",
    metavar="WORDS",
    help="Only the cases whose names contain this; vectors: searches in the knowledge's indexes; "
    "panel: its pages over ten million calls.",
)
def bench(
    *,
    quick: bool,
    peers: bool,
    memory: bool,
    growth: bool,
    rows: int,
    calls: int,
    knowledge: bool,
    curve: bool,
    write: bool,
    only: str,
) -> None:
    """Measure what a call costs: one worker on one core, mock provider and callers on the others."""
    try:
        if memory:
            measure_memory(calls)
            return
        if growth:
            measure_growth(rows)
            return
        if knowledge:
            measure_quality(curve=curve)
            return
        if only == vectors.NAME:
            vectors.measure_vectors(quick=quick)
            return
        if only == panel.NAME:
            panel.measure_panel(quick=quick)
            return
        _bench(quick=quick, write=write, only=only, with_peers=peers)
    except BenchError as error:
        click.echo(f"bench: {error}", err=True)
        sys.exit(1)


def _bench(*, quick: bool, write: bool, only: str, with_peers: bool) -> None:
    cases = [case for case in CASES if only in case.name]
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    figures: defaultdict[tuple[int, str], list[Round]] = defaultdict(list)
    load = load_average()
    began = time.monotonic()
    with stage(cases, with_peers=with_peers) as played:
        unable = _warm(cases, played)
        for number in range(rounds):
            click.echo(f"round {number + 1} of {rounds}", err=True)
            for index, case in enumerate(cases):
                for server in played.servers:
                    if (index, server.name) not in unable and (job := server.job(case, seconds)):
                        figures[index, server.name].append(_measure(case, server, job, played.callers))
        rows = [
            Row(
                case.name,
                case.callers,
                server.name,
                figures[index, server.name],
                ours=isinstance(server, Gateway),
            )
            for index, case in enumerate(cases)
            for server in played.servers
            if figures[index, server.name]
        ]
        memory = ", ".join(f"{server.memory_mb:.0f} MB {server.name}" for server in played.servers)
        reference = PRODUCTION if any(one.name == PRODUCTION for one in played.gateways) else EMBEDDED
    took = f"{rounds} rounds of {seconds} s, {time.monotonic() - began:.0f} s in all"
    notes = [
        f"{description()}; load before the start {load}, at the end {load_average()}; {took}",
        f"memory of the workers at the end: {memory}",
        f"ratios are those of {reference} to each other gateway, round by round: the median, least and most",
        *([] if played.pinned else ["nothing is pinned: gateway, provider and callers share the cores"]),
        *(f"left out: {one}" for one in (*played.left_out, *unable.values())),
    ]
    shown = report.cells(rows, reference)
    click.echo("\n".join((report.text_table(shown), "", *notes)))
    wrong = [row.complaint for row in rows if row.complaint]
    if wrong:
        raise BenchError("\n".join(("these figures are not to be used", *wrong)))
    if write:
        _write(shown, notes)


def _warm(cases: Sequence[Case], played: Stage) -> dict[tuple[int, str], str]:
    """Ask everything a little: connections, statements, whatever is made at its first use, and what is repeated.

    Gives the cases that another gateway answers wrongly, each with what came: they are not measured.
    """
    unable = {}
    for server in played.servers:
        for index, case in enumerate(cases):
            job = server.job(case, QUICK_SECONDS / 3)
            if job is None:
                continue
            if case.prime:
                played.callers.carry_out(msgspec.structs.replace(job, callers=1, seconds=1, calls=1))
            tried = _measure(case, server, job, played.callers)
            if tried.wrong and not isinstance(server, Gateway):
                unable[index, server.name] = (
                    f"{case.name} on {server.name}: it answers {tried.example.splitlines()[0][:80]}"
                )
    return unable


def _measure(case: Case, server: Server, job: Job, callers: Callers) -> Round:
    cpu, began = server.cpu_seconds, time.monotonic()
    result = callers.carry_out(job)
    spent, passed = server.cpu_seconds - cpu, time.monotonic() - began
    units = max(result.calls * case.units, 1)
    return Round(
        per_second=units / result.seconds,
        cpu_micros=spent / units * 1e6,
        core_share=spent / passed,
        p50=result.p50,
        p99=result.p99,
        wrong=result.wrong,
        example=f"{result.example}\n{server.last_fault()}" if result.wrong else "",
    )


def _write(rows: list[tuple[str, ...]], notes: list[str]) -> None:
    """Put the figures between the page's two marks; the rest of it is written by hand."""
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchError(f"{PAGE} has no place for figures ({BEGIN} … {END})")
    day = datetime.now(UTC).date().isoformat()
    said = [f"{note[0].upper()}{note[1:]}." for note in notes]
    figures = "\n".join((f"{day}.", "", *(f"- {note}" for note in said), "", report.markdown_table(rows)))
    PAGE.write_text(f"{before}{begin}\n{figures}\n{end}{after}")


if __name__ == "__main__":
    bench()
