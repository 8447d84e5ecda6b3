"""What two texts of a recipe differ in, shown with a little around it; quick also for texts made to be slow."""

from __future__ import annotations

from gateway.routes.panel.recipes import LINES_AROUND, LINES_COMPARED, Line, differences


def _numbered(count: int) -> list[str]:
    return [f"riga {number}" for number in range(count)]


def test_equal_texts_have_none() -> None:
    assert differences("uno\ndue", "uno\ndue") == []


def test_a_changed_line_stands_with_its_neighbours() -> None:
    before = _numbered(20)
    after = [*before[:10], "altra", *before[11:]]
    assert differences("\n".join(before), "\n".join(after)) == [
        Line("skip", str(10 - LINES_AROUND)),
        *(Line("same", text) for text in before[10 - LINES_AROUND : 10]),
        Line("del", "riga 10"),
        Line("ins", "altra"),
        *(Line("same", text) for text in before[11 : 11 + LINES_AROUND]),
        Line("skip", str(20 - 11 - LINES_AROUND)),
    ]


def test_what_is_shown_and_left_out_is_all_of_the_original() -> None:
    before = _numbered(60)
    after = [*before[:5], *before[7:30], "una", "due", *before[30:]]
    lines = differences("\n".join(before), "\n".join(after))
    counted = sum(int(line.text) if line.kind == "skip" else line.kind in {"same", "del"} for line in lines)
    assert counted == len(before)
    assert [line.text for line in lines if line.kind == "ins"] == ["una", "due"]
    assert [line.text for line in lines if line.kind == "del"] == ["riga 5", "riga 6"]


def test_very_long_texts_stand_whole() -> None:
    before, after = ["a"] * (LINES_COMPARED + 1), ["b", "a"] * LINES_COMPARED
    lines = differences("\n".join(before), "\n".join(after))
    assert [line.kind for line in lines] == ["del"] * len(before) + ["ins"] * len(after)
    assert differences("\n".join(before), "\n".join(before)) == []
