"""The finished picture: its form, its colours, that it is always the same, and the processes it is drawn in."""

from __future__ import annotations

import asyncio
import io
import os
import struct
import sys
from pathlib import Path
from typing import get_args

import pytest
from PIL import Image

from gateway.dilem.card import facts
from gateway.dilem.card.palette import GRAPHIC_PAIRS, PALETTES, TEXT_PAIRS, Color
from gateway.dilem.card.render import render_card
from gateway.dilem.card.renderer import CardFailedError, CardRenderer
from gateway.dilem.contract import CardFile, Theme
from tests.unit.dilem.cards import SEEDS, USUAL, card, longest

THEMES: tuple[Theme, ...] = get_args(Theme)


def chunks(png: bytes) -> list[bytes]:
    """The names of a PNG's chunks."""
    found, place = [], 8
    while place < len(png):
        length, name = struct.unpack_from("!I4s", png, place)
        found.append(name)
        place += 12 + length
    return found


def test_a_png_of_1080_by_1350_and_nothing_beside_the_picture() -> None:
    png = render_card(USUAL, "en", "light")
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert set(chunks(png)) == {b"IHDR", b"IDAT", b"IEND"}
    image = Image.open(io.BytesIO(png))
    assert (image.size, image.mode, image.info) == ((1080, 1350), "RGB", {})


def test_equal_cards_are_equal_to_the_byte_and_others_are_not() -> None:
    drawn = render_card(USUAL, "it", "light")
    assert render_card(USUAL, "it", "light") == drawn
    assert render_card(USUAL, "it", "dark") != drawn
    assert render_card(USUAL, "pt", "light") != drawn


def test_what_is_written_between_changes_nothing() -> None:
    written = card("one two", ("a", "b", 0.5), ("c", "", 0.5))
    veiled = card("one\u200b \u202etwo\u202c\x07", ("a\u2066", "b\x00", 0.5), ("\u00adc", "\u2060", 0.5))
    assert render_card(veiled, "en", "light") == render_card(written, "en", "light")


@pytest.mark.parametrize("seed", ["one word", "mixed", "Telugu"])
def test_the_largest_card_is_below_2_mib(seed: str) -> None:
    assert len(render_card(longest(SEEDS[seed]), "fr", "light")) <= facts.MOST_BYTES


def test_nothing_is_drawn_on_the_edge() -> None:
    image = Image.open(io.BytesIO(render_card(longest(SEEDS["piles"]), "fr", "dark")))
    page = PALETTES["dark"].rgb("page")
    for edge in ((0, 0, 1080, 40), (0, 1310, 1080, 1350), (0, 0, 40, 1350), (1040, 0, 1080, 1350)):
        assert image.crop(edge).getcolors() == [((edge[2] - edge[0]) * (edge[3] - edge[1]), page)]


def test_the_name_and_the_facts_hold_no_text_of_a_user() -> None:
    assert facts.card_file(b"12345", "dark", "pt") == CardFile(
        filename="dilem-dark-pt.png",
        mime_type="image/png",
        size_bytes=5,
        width=1080,
        height=1350,
        theme="dark",
        language="pt",
    )


# Contrast: what WCAG 2.2 asks on level AA (1.4.3 and 1.4.11).


def luminance(theme: Theme, color: Color) -> float:
    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, PALETTES[theme].rgb(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(theme: Theme, one: Color, other: Color) -> float:
    dark, light = sorted((luminance(theme, one), luminance(theme, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("text", "ground"), TEXT_PAIRS)
def test_texts_stand_out(theme: Theme, text: Color, ground: Color) -> None:
    assert contrast(theme, text, ground) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("shape", "ground"), GRAPHIC_PAIRS)
def test_shapes_stand_out(theme: Theme, shape: Color, ground: Color) -> None:
    assert contrast(theme, shape, ground) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_no_color_is_drawn_that_no_pair_knows(theme: Theme) -> None:
    image = Image.open(io.BytesIO(render_card(USUAL, "en", theme)))
    drawn = {color for _, color in image.getcolors(1 << 20) or []}
    assert {PALETTES[theme].rgb(color) for color in get_args(Color)} <= drawn
    known = {color for pair in (*TEXT_PAIRS, *GRAPHIC_PAIRS) for color in pair}
    assert known == set(get_args(Color))


# Processes


def command(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def said(path: Path) -> str:
    """What a process wrote so far."""
    return path.read_text() if path.exists() else ""


async def test_a_process_draws_what_this_one_draws() -> None:
    renderer = CardRenderer()
    drawn = await asyncio.gather(*[renderer.render(USUAL, "de", theme) for theme in THEMES])
    assert drawn == [render_card(USUAL, "de", theme) for theme in THEMES]


async def test_a_card_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    seen = tmp_path / "pid"
    hanging = command(f"import os, time; open({str(seen)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    with pytest.raises(CardFailedError, match="too long"):
        await CardRenderer(seconds=3, command=hanging).render(USUAL, "en", "light")
    pid = int(said(seen))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    "code", ["raise SystemExit(3)", "pass", "import os; os.abort()", "print('x'); 1 / 0"]
)
async def test_a_process_that_breaks_off_gives_no_card(code: str) -> None:
    with pytest.raises(CardFailedError):
        await CardRenderer(command=command(code)).render(USUAL, "en", "light")


async def test_a_process_that_cannot_be_started_gives_no_card() -> None:
    with pytest.raises(CardFailedError, match="can't be started"):
        await CardRenderer(command=("/nowhere/python",)).render(USUAL, "en", "light")


async def test_one_who_is_gone_leaves_no_process(tmp_path: Path) -> None:
    seen = tmp_path / "pid"
    hanging = command(f"import os, time; open({str(seen)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    asking = asyncio.create_task(CardRenderer(command=hanging).render(USUAL, "en", "light"))
    while not said(seen):  # noqa: ASYNC110 - told by a file
        await asyncio.sleep(0.02)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    pid = int(said(seen))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_few_draw_at_the_same_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        f"import time\nlog = open({str(log)!r}, 'a', buffering=1)\nlog.write('+')\nlog.flush()\ntime.sleep(0.2)\n"
        "log.write('-')\nlog.flush()\nprint('drawn')"
    )
    renderer = CardRenderer(most=1, seconds=60, command=command(code))
    await asyncio.gather(*[renderer.render(USUAL, "en", "light") for _ in range(3)])
    assert said(log) == "+-+-+-"


async def test_a_drawing_process_knows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEPPER_SECRET_KEY", "hidden")
    drawn = await CardRenderer(command=command("import os; print(sorted(os.environ))")).render(
        USUAL, "en", "light"
    )
    assert b"hidden" not in drawn
    assert b"PEPPER" not in drawn


HOSTILE = "from gateway.dilem.card import process\n{}\nprocess.main()"


@pytest.mark.parametrize("made", ["b'x' * (400 << 20)", "open({!r}, 'wb').write(b'x')"])
async def test_memory_and_files_are_refused_to_a_drawing_process(made: str, tmp_path: Path) -> None:
    written = tmp_path / "written"
    hostile = f"process.render_card = lambda *_: {made.format(str(written))}"
    with pytest.raises(CardFailedError):
        await CardRenderer(command=command(HOSTILE.format(hostile))).render(USUAL, "en", "light")
    assert not said(written)


async def test_the_kernel_ends_a_process_that_nobody_waits_for() -> None:
    code = HOSTILE.format("process.SECONDS = 0\nprocess.render_card = lambda *_: any(iter(int, 1))")
    with pytest.raises(CardFailedError, match="-14"):
        await CardRenderer(seconds=60, command=command(code)).render(USUAL, "en", "light")
