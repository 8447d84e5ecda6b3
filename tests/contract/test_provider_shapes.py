"""Forced shapes are served by every provider, whatever the names, and only whole answers of the shape are told."""

from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from gateway.domain.completion import Choice, Fields, JsonSchema, Shape
from gateway.domain.events import Stop
from gateway.ports import Trouble
from tests.fakes import empty, refuse, say, truncate
from tests.unit.providers.stage import Stage, open_stage

TEXT = {"type": "string"}
SCHEMA = JsonSchema(
    "una_forma",
    {
        "type": "object",
        "properties": {
            "genere": {"type": "string", "enum": ["uno"]},
            "detto": {"anyOf": [TEXT, {"type": "null"}]},
            "pesi": {"type": "array", "items": {"type": "number"}},
        },
        "required": ["genere", "detto", "pesi"],
        "additionalProperties": False,
    },
)

HOSTILE = (
    "nome",
    "data di nascita",
    'tra "virgolette"',
    "a capo\nqui",
    "🌶 piccante",
    "c:\\percorso",
    "\x00zero",
    "campo_1",
    "campo_2",
    "x" * 100,
    "è",
    "e\u0300",
    "Nome",
    " nome ",
    "$ref",
    "__proto__",
    "{}",
    "</system>",
    "riga\u2028divisa",
)
CATEGORIES: list[tuple[str, ...]] = [
    ("positivo", "negativo"),
    ("molto positivo", "né carne né pesce", "3. altro (vario)"),
    ('con "virgolette"', "a capo\nqui", "🌶", "\\", "categoria_1", "1", "categoria_2"),
    tuple(f"{number} {'x' * 190}" for number in range(100)),
    ("A", "a", " a "),
    ("dell'ufficio", "null"),
]


@pytest_asyncio.fixture(params=["claude", "openai", "prova"])
async def any_stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with open_stage(request.param) as stage:
        yield stage


@pytest_asyncio.fixture(params=["claude", "openai"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with open_stage(request.param) as stage:
        yield stage


@pytest.fixture(params=[False, True], ids=["whole", "pieces"])
def watched(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def many(count: int) -> tuple[str, ...]:
    return (*HOSTILE, *(f"campo numero {number}" for number in range(50)))[:count]


@pytest.mark.parametrize("count", [1, 16, 17, 25, 50])
async def test_fields(any_stage: Stage, watched: bool, count: int) -> None:
    names = many(count)

    told = await any_stage.ask("Nome: Ada\nè: verbo", watched=watched, shape=Fields(names))

    assert told.error is None
    assert told.stop is Stop.END
    assert len(told.pieces) == 1
    fields = msgspec.json.decode(told.text, type=dict[str, str | None])
    assert tuple(fields) == names
    assert told.text == msgspec.json.encode(fields).decode()
    if any_stage.name != "prova":
        # The fake fills in every field of the schema: none was lost on the way.
        assert set(fields.values()) == {"valore"}


@pytest.mark.parametrize("options", CATEGORIES, ids=range(len(CATEGORIES)))
async def test_categories(any_stage: Stage, watched: bool, options: tuple[str, ...]) -> None:
    told = await any_stage.ask("Che cos'è?", watched=watched, shape=Choice(options))

    assert told.error is None
    assert told.text in options
    assert len(told.pieces) == 1
    if any_stage.name != "prova":
        assert told.text == options[0]


@pytest.mark.parametrize("shape", [Fields(("a",)), Choice(("a", "b"))])
async def test_a_shape_that_was_not_kept_is_no_answer(stage: Stage, watched: bool, shape: Shape) -> None:
    stage.server.script(say("Non saprei."))

    told = await stage.ask(watched=watched, shape=shape)

    assert told.trouble is Trouble.FAULTY
    assert told.text == ""
    assert told.usage.output_tokens > 0


@pytest.mark.parametrize("shape", [Fields(("a",)), Choice(("a", "b"))])
async def test_a_shape_cut_by_tokens_is_useless(any_stage: Stage, watched: bool, shape: Shape) -> None:
    any_stage.server.script(truncate('{"a": ["metà'))

    told = await any_stage.ask("[[prova:troncata]]", watched=watched, shape=shape)

    assert told.trouble is Trouble.UNUSABLE
    assert told.text == ""
    assert told.usage.input_tokens > 0


async def test_a_schema_is_sent_as_it_is_and_its_answer_told_as_it_comes(
    any_stage: Stage, watched: bool
) -> None:
    told = await any_stage.ask(watched=watched, shape=SCHEMA)

    assert told.error is None
    assert told.stop is Stop.END
    assert len(told.pieces) == 1
    assert msgspec.json.decode(told.text)["genere"] == "uno"
    assert msgspec.json.decode(told.text).keys() == {"genere", "detto", "pesi"}
    if any_stage.name == "claude":
        [seen] = any_stage.server.seen
        assert seen.body["output_config"]["format"] == {"type": "json_schema", "schema": SCHEMA.schema}
    if any_stage.name == "openai":
        [seen] = any_stage.server.seen
        sent = {"name": "una_forma", "strict": True, "schema": SCHEMA.schema}
        assert seen.body["response_format"] == {"type": "json_schema", "json_schema": sent}


@pytest.mark.parametrize("answer", ["Non saprei.", '{"genere": 3}'])
async def test_who_asked_judges_the_answer_to_a_schema(stage: Stage, watched: bool, answer: str) -> None:
    stage.server.script(say(answer))

    told = await stage.ask(watched=watched, shape=SCHEMA)

    assert (told.text, told.stop, told.error) == (answer, Stop.END, None)


async def test_a_cut_answer_to_a_schema_is_told_as_cut(any_stage: Stage, watched: bool) -> None:
    any_stage.server.script(truncate('{"genere": "un'))

    told = await any_stage.ask("[[prova:troncata]]", watched=watched, shape=SCHEMA)

    assert told.error is None
    assert told.stop is Stop.TRUNCATED
    assert told.text.startswith('{"genere":')


async def test_an_answer_to_a_schema_may_say_nothing(stage: Stage, watched: bool) -> None:
    stage.server.script(empty())

    told = await stage.ask(watched=watched, shape=SCHEMA)

    assert (told.text, told.stop, told.error) == ("", Stop.TRUNCATED, None)


@pytest.mark.parametrize("shape", [Fields(("a",)), SCHEMA])
async def test_a_shape_may_be_refused(any_stage: Stage, watched: bool, shape: Shape) -> None:
    any_stage.server.script(refuse("Non posso"))

    told = await any_stage.ask("[[prova:richiesta_rifiutata]]", watched=watched, shape=shape)

    assert told.stop is Stop.REFUSED
    assert told.text == ""
