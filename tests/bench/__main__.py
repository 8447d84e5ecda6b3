"""`make bench`: what a call costs, in one worker on one core; see `docs/performance.md`."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from datetime import UTC, datetime

import click

from tests.bench import panel, report, vectors
from tests.bench.cases import CASES, Case
from tests.bench.knowledge.quality import measure_quality
from tests.bench.machine import description, load_average
from tests.bench.memory import measure_memory
from tests.bench.processes import ROOT, BenchError, Callers, Gateway
from tests.bench.report import Round, Row
from tests.bench.stage import stage

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
ROUNDS, SECONDS = 3, 1.5
QUICK_ROUNDS, QUICK_SECONDS = 1, 0.6


@click.command()
@click.option("--quick", is_flag=True, help="One short round: about half a minute.")
@click.option("--memory", is_flag=True, help="Measure memory instead: about a minute.")
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
def bench(*, quick: bool, memory: bool, knowledge: bool, curve: bool, write: bool, only: str) -> None:
    """Measure what a call costs: one worker on one core, mock provider and callers on the others."""
    try:
        if memory:
            measure_memory()
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
        _bench(quick=quick, write=write, only=only)
    except BenchError as error:
        click.echo(f"bench: {error}", err=True)
        sys.exit(1)


def _bench(*, quick: bool, write: bool, only: str) -> None:
    cases = [case for case in CASES if only in case.name]
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    figures: defaultdict[tuple[int, str], list[Round]] = defaultdict(list)
    load = load_average()
    with stage() as played:
        for gateway in played.gateways:
            _warm(cases, gateway, played.callers)
        for number in range(rounds):
            click.echo(f"round {number + 1} of {rounds}", err=True)
            for index, case in enumerate(cases):
                for gateway in played.gateways:
                    figures[index, gateway.name].append(_measure(case, gateway, played.callers, seconds))
        rows = [
            Row(case.name, case.callers, gateway.name, figures[index, gateway.name])
            for index, case in enumerate(cases)
            for gateway in played.gateways
        ]
        memory = ", ".join(f"{gateway.memory_mb:.0f} MB on {gateway.name}" for gateway in played.gateways)
    notes = [
        f"{description()}; load before the start {load}; {rounds} rounds of {seconds} s",
        f"memory of the worker at the end: {memory}",
        *([] if played.pinned else ["nothing is pinned: gateway, provider and callers share the cores"]),
        *([f"left out: {played.left_out}"] if played.left_out else []),
    ]
    shown = report.cells(rows)
    click.echo("\n".join((report.text_table(shown), "", *notes)))
    wrong = [row.complaint for row in rows if row.complaint]
    if wrong:
        raise BenchError("\n".join(("these figures are not to be used", *wrong)))
    if write:
        _write(shown, notes)


def _warm(cases: list[Case], gateway: Gateway, callers: Callers) -> None:
    """Ask everything a little: connections, statements, whatever is made at its first use, and what is repeated."""
    for case in cases:
        if case.prime:
            job = case.job(gateway.port, gateway.keys, QUICK_SECONDS)
            callers.carry_out(type(job)(port=job.port, callers=1, seconds=1, calls=1, request=job.request))
        _measure(case, gateway, callers, QUICK_SECONDS / 3)


def _measure(case: Case, gateway: Gateway, callers: Callers, seconds: float) -> Round:
    job = case.job(gateway.port, gateway.keys, seconds)
    cpu, began = gateway.cpu_seconds, time.monotonic()
    result = callers.carry_out(job)
    spent, passed = gateway.cpu_seconds - cpu, time.monotonic() - began
    units = max(result.calls * case.units, 1)
    return Round(
        per_second=units / result.seconds,
        cpu_micros=spent / units * 1e6,
        core_share=spent / passed,
        p50=result.p50,
        p99=result.p99,
        wrong=result.wrong,
        example=f"{result.example}\n{gateway.last_fault()}" if result.wrong else "",
    )


def _write(rows: list[tuple[str, ...]], notes: list[str]) -> None:
    """Put the figures between the page's two marks; the rest of it is written by hand."""
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchError(f"{PAGE} has no place for figures ({BEGIN} … {END})")
    day = datetime.now(UTC).date().isoformat()
    figures = "\n".join((f"{day}. {'. '.join(notes)}.", "", report.markdown_table(rows)))
    PAGE.write_text(f"{before}{begin}\n{figures}\n{end}{after}")


if __name__ == "__main__":
    bench()
