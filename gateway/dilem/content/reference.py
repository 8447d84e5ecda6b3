"""The reference: a section for every tool, its members read off the contract's types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from gateway.dilem.content import examples
from gateway.dilem.content.blocks import Block, Code, Endpoint, Prose, Row, Rows, Section, Tag
from gateway.dilem.content.fields import Field, as_json, fields_of
from gateway.dilem.content.words import Words
from gateway.dilem.contract import CaseId, Clarification, Error, Result, ResultId
from gateway.dilem.operations import API, CASE_HEADER, DECIDE, OPERATIONS, PNG, Operation
from gateway.dilem.schemas import schema_of

JSON = "application/json"
ALTERNATIVES = (Clarification, Result, Error)
"""What a decision may come to, in the order in which it is told."""


class Reference:
    """The reference in one language."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._said = words.reference

    def section(self) -> Section:
        """Give the whole reference."""
        tools = tuple(self._tool(operation) for operation in OPERATIONS)
        return Section(title=self._said.title, level=2, anchor="reference", blocks=tools)

    def parameters(self) -> Rows:
        """Give the members of a decision's request."""
        return Rows(self._words.parameters.title, self._rows(fields_of(DECIDE.body)))

    # --- a tool -----------------------------------------------------------------------------------------------------

    def _tool(self, operation: Operation) -> Section:
        return Section(
            title=operation.name,
            level=3,
            anchor=f"tool-{operation.name}",
            is_code=True,
            blocks=(
                Tag(self._said.kinds[operation.kind]),
                Prose(self._words.tools[operation.name]),
                Section(
                    title=f"MCP · {self._said.arguments}",
                    level=4,
                    blocks=(self._arguments(operation), Tag(self._said.answer, operation.response_name)),
                ),
                Endpoint(operation.method, API + operation.path),
                Section(title=self._said.input, level=4, blocks=tuple(self._input(operation))),
                Section(title=self._said.response, level=4, blocks=tuple(self._response(operation))),
                self._errors(operation),
            ),
        )

    def _arguments(self, operation: Operation) -> Rows:
        said = self._words.limits
        rows = (
            Row(
                name=field.name,
                type=field.literal_type,
                need=self._need(field),
                note=""
                if field.default is UNSET
                else said.default.format(value=f"`{as_json(field.default)}`"),
            )
            for field in fields_of(operation.arguments)
        )
        return Rows(f"{operation.name}: {self._said.arguments}", tuple(rows))

    def _input(self, operation: Operation) -> Iterable[Block]:
        yield Section(title=self._said.headers, level=5, blocks=(self._headers(operation),))
        parameters = re.findall(r"{(\w+)}", operation.path)
        if parameters:
            rows = tuple(self._text_row(name, ResultId, required=True) for name in parameters)
            yield Section(title=self._said.path, level=5, blocks=(Rows(self._said.path, rows),))
        if operation.body is None:
            yield Prose(self._said.no_body)
        else:
            body = (
                self._code(f"REST · {self._said.request}", examples.REQUESTS[operation.name]),
                Rows(f"{operation.name}: {self._said.body}", self._rows(fields_of(operation.body))),
            )
            yield Section(title=self._said.body, level=5, code=JSON, blocks=body)
        arguments = examples.ARGUMENTS.get(operation.name)
        if arguments is not None:
            label = f"MCP · {operation.name} · {self._said.request}"
            yield Code(f"{label} · JSON", "json", examples.pretty(arguments))

    def _headers(self, operation: Operation) -> Rows:
        rows = [
            Row(
                name="Authorization",
                type="string",
                need="" if operation.anonymous else self._said.required,
                text=self._words.fields["Authorization"],
            )
        ]
        if operation.takes_case is not None:
            rows.append(self._text_row(CASE_HEADER, CaseId, required=operation.takes_case == "required"))
        return Rows(self._said.headers, tuple(rows))

    def _response(self, operation: Operation) -> Iterable[Block]:
        blocks: tuple[Block, ...]
        if operation.response_name == PNG:
            blocks = (Prose(self._said.image),)
        elif operation is DECIDE:
            said = self._words.responses
            texts = (
                (said.clarification_title, said.clarification, examples.CLARIFICATION),
                (said.result_title, said.result, examples.RESULT),
                (said.error_title, said.error, examples.ERROR),
            )
            blocks = tuple(
                Section(
                    title=title,
                    level=5,
                    code=kind.__name__,
                    blocks=(Prose(text), self._code("", example), self.members(kind)),
                )
                for kind, (title, text, example) in zip(ALTERNATIVES, texts, strict=True)
            )
        else:
            example = self._code("", examples.RESPONSES[operation.name])
            blocks = (example, self.members(operation.response))
        yield Section(
            title="200", level=5, code=PNG if operation.response_name == PNG else JSON, blocks=blocks
        )

    def _errors(self, operation: Operation) -> Section:
        return Section(
            title=self._words.errors.title,
            level=4,
            blocks=(
                Tag(" · ".join(map(str, operation.statuses)), JSON),
                self._code("", examples.ERROR),
                self.members(Error),
            ),
        )

    # --- members ----------------------------------------------------------------------------------------------------

    def members(self, kind: Any) -> Rows:
        """Give the members of an answer."""
        return Rows(kind.__name__, self._rows(fields_of(kind)))

    def _rows(self, fields: Iterable[Field]) -> tuple[Row, ...]:
        return tuple(
            Row(
                name=field.name,
                type=field.type,
                need=self._said.required if field.required else "",
                text=self._words.meaning(field.owner, field.name),
                note=self._words.limits_of(field),
                pattern=field.schema.get("pattern", ""),
                rows=self._rows(field.fields),
            )
            for field in fields
        )

    def _text_row(self, name: str, kind: object, *, required: bool) -> Row:
        """A header or a parameter of the path: text that matches a pattern."""
        return Row(
            name=name,
            type="string",
            need=self._said.required if required else "",
            text=self._words.fields[name],
            pattern=schema_of(kind)["pattern"],
        )

    def _need(self, field: Field) -> str:
        return self._said.required if field.required else self._said.optional

    def _code(self, label: str, value: object) -> Code:
        parts = (label, self._words.page.example, "JSON")
        return Code(" · ".join(part for part in parts if part), "json", examples.pretty(value))
