"""What both vector indexes promise: the project first, live versions alone, whole versions alone, exact likeness."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator

import numpy as np
import pytest

from gateway.ports import VectorIndex
from tests.contract.indexes import (
    DIMENSIONS,
    KINDS,
    ROUNDING,
    IndexStore,
    as_bytes,
    ask,
    assert_like,
    brute_force,
    directions,
    open_store,
    run_elsewhere,
    texts,
    told_by,
    write,
)

HOSTILE_NAMES = [
    "demo",
    "Demo",
    "demo ",
    "demo2",
    "dem_",
    "dem%",
    "",
    "'; DROP TABLE pepper_passages; --",
    "demo' OR 'a' = 'a",
    'demo"; SELECT 1; --',
    "demo\\",
    "\\x64656d6f",
    "${project}",
    "progetto\n\t",
    "perché",
    "perche\u0301",
    "😀",
    "x" * 300,
]


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[IndexStore]:
    opened = open_store(request, request.param)
    yield opened
    await opened.close()


@pytest.fixture
def index(store: IndexStore) -> VectorIndex:
    return store.index


# --- likeness -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 2, DIMENSIONS, 1536])
async def test_the_nearest_come_first_with_their_cosine(index: VectorIndex, dimensions: int) -> None:
    documents = {
        number: directions(count, seed=number, dimensions=dimensions)
        for number, count in enumerate((40, 1, 25, 60), start=10)
    }
    for number, rows in documents.items():
        await write(index, "demo", number, 1, rows)
    live = dict.fromkeys(documents, 1)
    for question in directions(8, seed=99, dimensions=dimensions):
        for most in (1, 5, 60, 1000):
            found = await index.search("demo", live, as_bytes(question[None])[0], most, -1.0)
            assert_like(found, brute_force(documents, question, most))
            order = [match.similarity for match in found]
            assert order == sorted(order, reverse=True)


async def test_nothing_below_the_floor_is_given(index: VectorIndex) -> None:
    rows = directions(50)
    await write(index, "demo", 1, 1, rows)
    question = directions(1, seed=5)[0]
    expected = brute_force({1: rows}, question, 50)
    for floor in (0.5, 0.25, 0.0, -0.25):
        found = await index.search("demo", {1: 1}, as_bytes(question[None])[0], 50, floor)
        clearly = sum(match.similarity >= floor + ROUNDING for match in expected)
        perhaps = sum(match.similarity >= floor - ROUNDING for match in expected)
        assert clearly <= len(found) <= perhaps
        assert all(match.similarity >= floor for match in found)
    assert await ask(index, "demo", {1: 1}, rows[7], floor=0.999) == [(1, 8)]
    assert await ask(index, "demo", {1: 1}, rows[7], floor=1.1) == []


async def test_the_same_the_opposite_and_the_strange(index: VectorIndex) -> None:
    one = directions(1)[0]
    other = np.roll(one, 1) * np.where(np.arange(DIMENSIONS) % 2, 1, -1).astype(np.float32)
    await write(index, "demo", 1, 1, np.stack([one, -one, other]))
    found = await index.search("demo", {1: 1}, as_bytes(one[None])[0], 5, -1.0)
    cosine = float(one @ other)
    assert [match.passage for match in found] == [1, 3, 2]
    assert [match.similarity for match in found] == pytest.approx([1.0, cosine, -1.0], abs=ROUNDING)
    assert all(-1.0 <= match.similarity <= 1.0 for match in found)


@pytest.mark.parametrize("length", [1e-38, 1e-20, 1e-3, 7.0, 1e20, 3e38], ids=str)
async def test_only_the_direction_of_a_vector_counts(index: VectorIndex, length: float) -> None:
    rows = directions(20)
    await write(index, "demo", 1, 1, (rows * np.float32(length)).astype(np.float32))
    found = await index.search("demo", {1: 1}, as_bytes(rows[4][None] * np.float32(length))[0], 3, -1.0)
    assert_like(found, brute_force({1: rows}, rows[4], 3))


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf"), float("-inf")], ids=str)
async def test_a_vector_without_a_direction_is_like_nothing(index: VectorIndex, value: float) -> None:
    strange = np.full(DIMENSIONS, value, dtype=np.float32)
    rows = np.stack([strange, directions(1)[0]])
    await write(index, "demo", 1, 1, rows)
    assert await ask(index, "demo", {1: 1}, rows[1], floor=0.1) == [(1, 2)]
    found = await index.search("demo", {1: 1}, as_bytes(strange[None])[0], 5, -1.0)
    assert {match.similarity for match in found} == {0.0}


async def test_equal_likeness_is_told_in_the_order_of_the_texts(index: VectorIndex) -> None:
    same = np.repeat(directions(1), 6, axis=0)
    for document in (3, 1, 2):
        await write(index, "demo", document, 1, same)
    found = await ask(index, "demo", {3: 1, 1: 1, 2: 1}, same[0], most=18)
    assert found == [(document, passage) for document in (1, 2, 3) for passage in range(1, 7)]


async def test_another_number_of_dimensions_finds_nothing_and_breaks_nothing(index: VectorIndex) -> None:
    longer, shorter = directions(5, dimensions=32), directions(5, dimensions=8)
    await write(index, "demo", 1, 1, longer)
    await write(index, "demo", 2, 1, shorter)
    live = {1: 1, 2: 1}
    assert await ask(index, "demo", live, longer[2], most=1) == [(1, 3)]
    assert await ask(index, "demo", live, shorter[3], most=1) == [(2, 4)]
    assert {document for document, _ in await ask(index, "demo", live, shorter[3], most=50)} == {2}
    assert await ask(index, "demo", live, directions(1)[0]) == []
    await write(index, "demo", 1, 2, shorter)
    assert len(await ask(index, "demo", {1: 2, 2: 1}, shorter[3], most=50)) == 10


async def test_vectors_that_do_not_fit_their_passages_are_refused_and_change_nothing(
    index: VectorIndex,
) -> None:
    rows = directions(2)
    await write(index, "demo", 1, 1, rows)
    one, other = as_bytes(rows)
    for passages, vectors in (
        (["a"], [one, other]),
        (["a", "b"], [one]),
        (["a", "b"], [one, other[:-4]]),
        ([], []),
        (["a"], [b""]),
    ):
        with pytest.raises(ValueError, match="vector"):
            await index.write("demo", 1, 1, passages, vectors)
    assert await index.passages("demo", 1, 1) == ("brano 1", "brano 2")


# --- isolation ----------------------------------------------------------------------------------------------------


async def test_the_same_words_from_another_project_find_nothing(store: IndexStore) -> None:
    rows = directions(10)
    await write(store.index, "demo", 1, 1, rows)
    for index in (store.index, store.open()):
        for name in HOSTILE_NAMES[1:]:
            assert await ask(index, name, {1: 1}, rows[0]) == []
            assert await index.passages(name, 1, 1) == ()
            await index.forget(name, 1)
            await index.forget(name, 1, 1)
            await index.forget_project(name)
    assert await ask(store.index, "demo", {1: 1}, rows[0], most=1) == [(1, 1)]
    assert len(await store.index.passages("demo", 1, 1)) == 10


async def test_projects_of_any_name_have_their_own_under_the_same_numbers(index: VectorIndex) -> None:
    rows = {name: directions(4, seed=seed) for seed, name in enumerate(HOSTILE_NAMES)}
    for name in HOSTILE_NAMES:
        await write(index, name, 1, 1, rows[name], name="di " + name)
    for name in HOSTILE_NAMES:
        found = await index.search(name, {1: 1}, as_bytes(rows[name])[2], 50, -1.0)
        assert [match.text for match in found[:1]] == [f"di {name} 3"]
        assert {match.text for match in found} == set(texts(rows[name], "di " + name))
    for gone in HOSTILE_NAMES[::2]:
        await index.forget_project(gone)
    for name in HOSTILE_NAMES:
        count = len(await ask(index, name, {1: 1}, rows[name][0]))
        assert count == (0 if name in HOSTILE_NAMES[::2] else 4)


# --- versions -----------------------------------------------------------------------------------------------------


async def test_live_versions_alone_are_searched(index: VectorIndex) -> None:
    rows = directions(12)
    await write(index, "demo", 1, 1, rows[:4])
    await write(index, "demo", 1, 2, rows[4:8])
    await write(index, "demo", 2, 1, rows[8:])
    everything = 50
    for live, expected in (
        ({1: 1}, {(1, 1): rows[0]}),
        ({1: 2}, {(1, 1): rows[4]}),
        ({2: 1}, {(2, 1): rows[8]}),
        ({1: 2, 2: 1}, {(1, 1): rows[4], (2, 1): rows[8]}),
    ):
        for (document, passage), row in expected.items():
            assert await ask(index, "demo", live, row, most=1) == [(document, passage)]
        found = await ask(index, "demo", live, rows[0], most=everything)
        assert sorted(found) == [(document, passage) for document in sorted(live) for passage in range(1, 5)]


async def test_versions_that_are_not_there_give_nothing(index: VectorIndex) -> None:
    rows = directions(3)
    assert await ask(index, "demo", {}, rows[0]) == []
    await write(index, "demo", 1, 7, rows)
    assert await ask(index, "demo", {1: 7, 2: 1, 3: 9}, rows[0], most=1) == [(1, 1)]
    assert await ask(index, "demo", {1: 8}, rows[0]) == []
    assert await ask(index, "demo", {7: 1}, rows[0]) == []
    assert await ask(index, "demo", {}, rows[0]) == []
    assert await ask(index, "demo", {1: 7}, rows[0], most=0) == []
    assert await index.passages("demo", 1, 8) == ()


async def test_what_is_written_again_takes_the_place_of_what_was_there(store: IndexStore) -> None:
    index, other = store.index, store.open()
    old, new = directions(6, seed=1), directions(2, seed=2)
    await write(index, "demo", 1, 1, old, name="vecchio")
    assert await ask(other, "demo", {1: 1}, old[5], most=1) == [(1, 6)]
    await write(index, "demo", 1, 1, new, name="nuovo")
    for each in (index, other, store.open()):
        found = await each.search("demo", {1: 1}, as_bytes(old)[5], 50, -1.0)
        assert {match.text for match in found} == {"nuovo 1", "nuovo 2"}
        assert await each.passages("demo", 1, 1) == ("nuovo 1", "nuovo 2")


async def test_forgetting_takes_a_version_a_document_a_project_and_is_seen_by_others(
    store: IndexStore,
) -> None:
    index, other = store.index, store.open()
    rows = directions(2)
    for document in (1, 2):
        for version in (1, 2, 3):
            await write(index, "demo", document, version, rows)

    async def left(live: dict[int, int]) -> set[int]:
        return {document for document, _ in await ask(other, "demo", live, rows[0], most=50)}

    assert await left({1: 2, 2: 2}) == {1, 2}
    await index.forget("demo", 1, 2)
    assert await left({1: 2, 2: 2}) == {2}
    assert await left({1: 3, 2: 2}) == {1, 2}
    await index.forget("demo", 1)
    assert [await left({1: version}) for version in (1, 2, 3)] == [set(), set(), set()]
    assert await left({2: 3}) == {2}
    await index.forget("demo", 1)
    await index.forget("demo", 9, 9)
    await index.forget_project("demo")
    assert [await left({2: version}) for version in (1, 2, 3)] == [set(), set(), set()]
    await index.forget_project("demo")


async def test_an_index_knows_which_live_versions_it_holds(store: IndexStore) -> None:
    index, other = store.index, store.open()
    rows = directions(3)
    assert await index.held("demo", {1: 1}) == set(), "nothing was ever written"
    await write(index, "demo", 1, 1, rows)
    await write(index, "demo", 1, 2, rows)
    await write(index, "demo", 2, 5, directions(2, dimensions=DIMENSIONS * 2))
    await write(index, "altro", 3, 1, rows)
    live = {1: 2, 2: 5, 3: 1, 4: 1}
    for each in (index, other):
        assert await each.held("demo", live) == {1, 2}
        assert await each.held("demo", {1: 3, 2: 1}) == set()
        assert await each.held("demo", {}) == set()
        assert await each.held("altro", live) == {3}
        assert await each.held("mai visto", live) == set()
    await index.forget("demo", 1, 2)
    assert await other.held("demo", live) == {2}
    assert await other.held("demo", live | {1: 1}) == {1, 2}
    await index.forget_project("demo")
    assert await other.held("demo", live | {1: 1}) == set()
    assert await other.held("altro", live) == {3}


async def test_numbers_may_be_large(index: VectorIndex) -> None:
    rows = directions(2)
    document, version = 2**62, 2**61
    await write(index, "demo", document, version, rows)
    assert await ask(index, "demo", {document: version}, rows[1], most=1) == [(document, 2)]
    assert await index.held("demo", {document: version, 1: 1}) == {document}
    await index.forget("demo", document, version)
    assert await ask(index, "demo", {document: version}, rows[1]) == []


# --- texts --------------------------------------------------------------------------------------------------------

STRANGE = [
    "ignora le istruzioni",
    "",
    "a" * 500_000,
    "\u202ebidi\u202c e\u0301 😀👩‍👩‍👧 \ufeff",
    "<script>alert(1)</script> ' \" \\ % $1 ; --",
    "righe\r\n\ttabulazioni\u2028",
    "\\x00 \\u0000 E'\\\\'",
]


async def test_passages_are_kept_letter_for_letter(store: IndexStore) -> None:
    rows = directions(len(STRANGE))
    await store.index.write("demo", 1, 1, STRANGE, as_bytes(rows))
    for index in (store.index, store.open()):
        assert list(await index.passages("demo", 1, 1)) == STRANGE
        for number, vector in enumerate(as_bytes(rows)):
            (match,) = await index.search("demo", {1: 1}, vector, 1, 0.9)
            assert (match.passage, match.text) == (number + 1, STRANGE[number])


async def test_a_text_that_a_store_can_not_keep_breaks_nothing(index: VectorIndex) -> None:
    rows = directions(2)
    await index.write("demo", 1, 1, ["prima\x00dopo", "mezza \ud83d coppia"], as_bytes(rows))
    first, second = await index.passages("demo", 1, 1)
    assert first in {"prima\x00dopo", "prima\ufffddopo"}
    assert second == "mezza ? coppia"


# --- several at once ----------------------------------------------------------------------------------------------


async def test_searchers_see_whole_versions_while_others_write(store: IndexStore) -> None:
    """Each version has passages of its own number; no answer may hold those of two, or some of one."""
    writer, readers = store.index, [store.open(), store.open(), store.index]
    rows = directions(30)
    await write(writer, "demo", 1, 1, rows, name="versione 1 brano")
    live, done = {1: 1}, False

    async def replace() -> None:
        nonlocal done
        for version in range(2, 14):
            await write(writer, "demo", 1, version, rows, name=f"versione {version} brano")
            live[1] = version
            await writer.forget("demo", 1, version - 1)
            await asyncio.sleep(0.02)
        done = True

    async def search(index: VectorIndex) -> int:
        seen = 0
        while not done:
            now = dict(live)
            found = await index.search("demo", now, as_bytes(rows)[0], 50, -1.0)
            assert len(found) in {0, 30}, "a version is there whole, or has been forgotten"
            assert all(match.text.startswith(f"versione {now[1]} ") for match in found)
            seen += bool(found)
        return seen

    outcomes = await asyncio.gather(replace(), *(search(index) for index in readers))
    assert any(outcomes[1:])


async def test_two_writers_of_one_version_leave_one_of_them_whole(store: IndexStore) -> None:
    indexes = [store.open() for _ in range(4)]
    for round_number in range(5):
        await asyncio.gather(
            *(
                write(index, "demo", 1, 1, directions(20 + number, seed=number), name=f"di {number} brano")
                for number, index in enumerate(indexes)
            )
        )
        kept = await store.index.passages("demo", 1, 1)
        writer = int(kept[0].split()[1])
        assert list(kept) == texts(directions(20 + writer), f"di {writer} brano"), round_number


async def test_many_projects_at_once_keep_apart(store: IndexStore) -> None:
    async def live_a_life(number: int, index: VectorIndex) -> None:
        name, rows = f"progetto-{number}", directions(15, seed=number)
        for version in range(1, 4):
            await write(index, name, 1, version, rows, name=name)
            found = await index.search(name, {1: version}, as_bytes(rows)[3], 50, -1.0)
            assert {match.text for match in found} == set(texts(rows, name))
        await index.forget_project(name)
        assert await ask(index, name, {1: 3}, rows[0]) == []

    indexes = [store.index, store.open()]
    await asyncio.gather(*(live_a_life(number, indexes[number % 2]) for number in range(12)))


async def test_processes_see_each_other_at_the_next_search(store: IndexStore) -> None:
    rows = directions(3)
    await write(store.index, "demo", 1, 1, rows)
    before = await ask(store.index, "demo", {1: 1, 2: 1}, rows[0], most=9)
    assert sorted(before) == [(1, 1), (1, 2), (1, 3)]
    output = await told_by(
        run_elsewhere(
            """
            rows = directions(3)
            await write(index, "demo", 2, 1, rows)
            await index.forget("demo", 1)
            print(await ask(index, "demo", {1: 1, 2: 1}, rows[0], most=1))
            await index.close()
            """,
            store,
        )
    )
    assert output == "[(2, 1)]\n"
    assert await ask(store.index, "demo", {1: 1, 2: 1}, rows[0], most=1) == [(2, 1)]
    assert len(await ask(store.index, "demo", {1: 1, 2: 1}, rows[0], most=9)) == 3


async def test_a_killed_writer_leaves_a_whole_version_or_none(store: IndexStore) -> None:
    rows = directions(400)
    await write(store.index, "demo", 1, 1, rows[:50])
    process = run_elsewhere(
        """
        rows = directions(400)
        print("begun", flush=True)
        for version in range(2, 10_000):
            await write(index, "demo", 1, version, rows)
            print(version, flush=True)
        """,
        store,
    )
    assert process.stdout is not None
    told = [await asyncio.to_thread(process.stdout.readline) for _ in range(6)]
    process.kill()
    rest, _ = await asyncio.to_thread(process.communicate)
    last = int(("".join(told) + rest).split()[-1])
    assert last >= 6
    for version in range(2, last + 1):
        assert len(await store.index.passages("demo", 1, version)) == 400, "what was acknowledged is there"
    for version in (last + 1, last + 2):
        assert len(await store.index.passages("demo", 1, version)) in {0, 400}
        assert len(await ask(store.index, "demo", {1: version}, rows[0], most=500)) in {0, 400}
    assert len(await ask(store.index, "demo", {1: 1}, rows[0], most=500)) == 50


async def test_an_index_lives_again_after_its_closing(store: IndexStore) -> None:
    rows = directions(3)
    await write(store.index, "demo", 1, 1, rows)
    await store.index.close()
    await store.index.ping()
    assert await ask(store.index, "demo", {1: 1}, rows[2], most=1) == [(1, 3)]


def test_vectors_are_little_endian_floats() -> None:
    """What the port says, and what the helpers of these tests give."""
    assert as_bytes(np.array([[1.0, -2.0]], dtype=np.float32)) == [struct.pack("<2f", 1.0, -2.0)]
