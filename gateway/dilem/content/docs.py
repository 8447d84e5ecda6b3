"""The documentation page: how agents and applications use Dilem, in one language."""

from __future__ import annotations

from gateway.dilem.content import examples
from gateway.dilem.content.blocks import (
    Block,
    Card,
    Cards,
    Choice,
    Choices,
    Code,
    Link,
    Links,
    Page,
    Prose,
    Section,
    Steps,
    Table,
)
from gateway.dilem.content.fields import fields_of
from gateway.dilem.content.reference import ALTERNATIVES, Reference
from gateway.dilem.content.site import (
    AGENTS,
    AI_CATALOG,
    LLMS,
    OPENAPI,
    SERVER_CARD,
    Site,
    docs_path,
    privacy_path,
)
from gateway.dilem.content.words import words_in
from gateway.dilem.contract import VERSION, Language
from gateway.dilem.errors import CODES
from gateway.dilem.operations import (
    API,
    COMMON_STATUSES,
    DECIDE,
    EXPORT_RESULT_CARD,
    GET_RESULT_FEEDBACK,
    GET_USAGE,
    MCP,
    SEND_USER_FEEDBACK,
    SET_RESULT_FEEDBACK,
    START_SESSION,
    Operation,
)

_SYNTAXES = {"bash": "Bash", "json": "JSON", "toml": "TOML"}


class Docs:
    """The sections of the documentation, for its page and for the agents' guide."""

    def __init__(self, language: Language, site: Site) -> None:
        self._language = language
        self._site = site
        self._words = words_in(language)
        self._reference = Reference(self._words)

    def page(self) -> Page:
        """Give the whole page."""
        said = self._words.page
        return Page(
            title=said.title,
            description=said.description,
            kicker=said.kicker,
            lead=said.lead,
            badges=(f"REST v{VERSION}", "MCP · Streamable HTTP"),
            blocks=(
                self._ways(),
                self.connect(),
                self._reference.section(),
                self.quickstart(),
                self.session(),
                self.life(),
                self.parameters(),
                self._responses(),
                self.feedback(),
                self.credits(),
                self.errors(),
                self.browser(),
                self.technical(),
            ),
        )

    def _ways(self) -> Cards:
        said = self._words.page
        return Cards(
            (
                Card("MCP", self._at("connect"), said.mcp_card),
                Card("REST API", self._at("quickstart"), said.rest_card),
                Card("WebMCP", self._at("browser"), said.web_card),
            )
        )

    def connect(self) -> Section:
        """Say where the MCP server is and how eight clients are told of it."""
        said = self._words.connect
        return Section(
            title=said.title,
            level=2,
            anchor="connect",
            blocks=(
                Code(said.address, "text", self._site.url(MCP)),
                Prose(said.about),
                Prose(said.choose),
                Choices("client", tuple(map(self._client, examples.clients(self._site.base)))),
            ),
        )

    def _client(self, client: examples.Client) -> Choice:
        said = self._words.connect
        syntax = _SYNTAXES[client.syntax]
        blocks: list[Block] = [Code(said.file, "text", client.file)] if client.file else []
        label = said.configuration if client.file else said.terminal
        blocks.append(Code(f"{label} · {syntax}", client.syntax, client.text))
        blocks.append(Links((Link(said.manual, client.manual),)))
        return Choice(client.name, tuple(blocks))

    def quickstart(self) -> Section:
        """Begin over REST."""
        said, base = self._words.quickstart, self._site.base
        return Section(
            title=said.title,
            level=2,
            anchor="quickstart",
            blocks=(
                Prose(said.about),
                Prose(said.session),
                _command(START_SESSION, examples.start_session(base)),
                _command(GET_USAGE, examples.get_usage(base)),
                Prose(said.case),
                _command(DECIDE, examples.decide(base)),
            ),
        )

    def session(self) -> Section:
        """Say what a session and a case are."""
        said = self._words.session
        return Section(
            title=said.title, level=2, anchor="session", blocks=(Prose(said.token), Prose(said.case))
        )

    def life(self) -> Section:
        """Tell the turns of a dilemma."""
        said = self._words.life
        return Section(
            title=said.title, level=2, anchor="life", blocks=(Steps(said.steps), Prose(said.agent))
        )

    def parameters(self) -> Section:
        """Tell what a decision takes."""
        said = self._words.parameters
        return Section(
            title=said.title,
            level=2,
            anchor="parameters",
            blocks=(self._reference.parameters(), Prose(said.total)),
        )

    def _responses(self) -> Section:
        said = self._words.responses
        texts = (
            (said.clarification_title, said.clarification),
            (said.result_title, said.result),
            (said.error_title, said.error),
        )
        kinds = tuple(
            Section(
                title=title,
                level=3,
                code=f"type: {kind.__struct_config__.tag}",
                blocks=(Prose(text), Prose(f"`{', '.join(field.name for field in fields_of(kind))}`")),
            )
            for kind, (title, text) in zip(ALTERNATIVES, texts, strict=True)
        )
        label = f"{self._words.page.example} · clarification · JSON"
        example = Code(label, "json", examples.pretty(examples.CLARIFICATION))
        return Section(title=said.title, level=2, anchor="responses", blocks=(*kinds, example))

    def feedback(self) -> Section:
        """Tell of cards, votes and reports."""
        said, base = self._words.feedback, self._site.base
        request = f"{self._words.reference.request} · {self._words.page.example}"
        card = Section(
            title=said.card_title,
            level=3,
            blocks=(
                Prose(said.card),
                Code(f"{request} · Bash", "bash", examples.CARD_INPUT),
                _command(EXPORT_RESULT_CARD, examples.export_card(base)),
            ),
        )
        vote = Section(
            title=said.vote_title,
            level=3,
            blocks=(
                Prose(said.vote),
                Prose(f"`{GET_RESULT_FEEDBACK.method} {API}{GET_RESULT_FEEDBACK.path}`"),
                Code(f"{request} · JSON", "json", examples.VOTE_INPUT),
                _command(SET_RESULT_FEEDBACK, examples.vote(base)),
            ),
        )
        report = Section(
            title=said.report_title,
            level=3,
            blocks=(
                Prose(said.report),
                Code(f"{request} · JSON", "json", examples.pretty(examples.REPORT_INPUT)),
                _command(SEND_USER_FEEDBACK, examples.report(base)),
            ),
        )
        return Section(title=said.title, level=2, anchor="feedback", blocks=(card, vote, report))

    def credits(self) -> Section:
        """Say what a credit covers."""
        said = self._words.credits
        return Section(
            title=said.title,
            level=2,
            anchor="credits",
            blocks=(Prose(said.covers), Prose(said.ask), Prose(said.policy)),
        )

    def errors(self) -> Section:
        """List every code."""
        said = self._words.errors
        rows = tuple(
            (
                str(code.status),
                f"`{code.code}`",
                said.yes if code.retryable else said.no,
                self._words.codes[code.code],
            )
            for code in CODES
        )
        badges = Links(tuple(Link(f"HTTP {status}", OPENAPI) for status in COMMON_STATUSES))
        return Section(
            title=said.title,
            level=2,
            anchor="errors",
            blocks=(
                badges,
                Prose(said.about),
                Table(("HTTP", said.code, said.again, said.meaning), rows),
                Prose(said.lost),
            ),
        )

    def browser(self) -> Section:
        """Say what there is for agents in a browser."""
        said = self._words.browser
        return Section(
            title=said.title, level=2, anchor="browser", blocks=(Prose(said.now), Prose(said.later))
        )

    def technical(self) -> Section:
        """Lead to the documents for programs."""
        said = self._words.technical
        return Section(
            title=said.title,
            level=2,
            anchor="technical",
            blocks=(
                Prose(said.about),
                Links(
                    (
                        Link("OpenAPI 3.1", OPENAPI),
                        Link("AI Catalog", AI_CATALOG),
                        Link("MCP Server Card", SERVER_CARD),
                        Link(said.guide, AGENTS),
                        Link("llms.txt", LLMS),
                    )
                ),
                Prose(said.kept),
                Links((Link(said.privacy, privacy_path(self._language)), self.contact())),
            ),
        )

    def contact(self) -> Link:
        """Give the way to those who run it."""
        return Link(f"{self._words.technical.contact} · {self._site.contact}", self._site.mail)

    def _at(self, anchor: str) -> str:
        return docs_path(self._language, anchor)


def _command(operation: Operation, text: str) -> Code:
    return Code(f"{operation.method} {API}{operation.path} · Bash", "bash", text)
