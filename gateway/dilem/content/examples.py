"""What is to be copied: requests, answers, commands and clients' configurations, the same in every language."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from gateway.dilem.content.words import CLIENT_SECONDS
from gateway.dilem.contract import SESSION_SECONDS
from gateway.dilem.operations import API, MCP

Json: TypeAlias = dict[str, Any]

SHORT_SECONDS: Final = 15
"""How long a client should wait for anything but a decision."""

_CASE: Final = "my-unique-dilemma-id"
_RESULT_ID: Final = "0123456789abcdef0123456789abcdef"
_OPTIONS: Final = [
    {
        "id": "train",
        "label": "Take the train",
        "description": "Use the direct rail connection.",
        "probability": 0.7,
    },
    {"id": "bus", "label": "Take the bus", "description": "Use the bus stop near home.", "probability": 0.3},
]
_SUMMARY: Final = "Train or bus for my commute?"

CLARIFICATION: Final[Json] = {
    "type": "clarification",
    "question": "How far is your commute?",
    "choices": [],
    "format": "number",
    "unit": "km",
    "summary": "Train or bus",
}
RESULT: Final[Json] = {
    "type": "result",
    "summary": _SUMMARY,
    "options": _OPTIONS,
    "selected": "train",
    "sources": [],
    "result_id": _RESULT_ID,
}
ERROR: Final[Json] = {"type": "error", "code": "case_completed"}
_VOTE: Final[Json] = {"result_id": _RESULT_ID, "helpful": False, "reason": "missing_constraint"}

REQUESTS: Final[dict[str, Json]] = {
    "decide": {"text": _SUMMARY, "language": "en", "refinements": [], "clarification_version": 2},
    "export_result_card": {
        "result": {"summary": _SUMMARY, "selected": "train", "options": _OPTIONS},
        "language": "en",
        "theme": "light",
    },
    "set_result_feedback": _VOTE,
    "send_user_feedback": {
        "request_id": _RESULT_ID,
        "kind": "general",
        "message": "Please explain how the recommendation uses my constraints.",
        "email": "",
        "language": "en",
        "source": "agent",
        "version": "unknown",
        "screen": "other",
        "response": None,
    },
}
"""A body for every operation that takes one."""
RESPONSES: Final[dict[str, Json]] = {
    "start_session": {"session": "OPAQUE_SESSION_KEEP_PRIVATE", "expires_in": SESSION_SECONDS},
    "get_usage": {
        "day": "2026-01-01",
        "resets_at": "2026-01-02T00:00:00Z",
        "collective": {"completed": 42},
        "dilemmas": {"used": 1, "limit": 20, "remaining": 19},
        "case": {"id": _CASE, "admitted": True, "completed": False},
        "voice": {
            "seconds_used": 0,
            "seconds_reserved": 0,
            "seconds_remaining": 1200,
            "seconds_limit": 1200,
            "max_seconds": 60,
        },
        "budget": {"daily_usd": 5, "available": True},
    },
    "get_result_feedback": _VOTE,
    "set_result_feedback": _VOTE,
    "send_user_feedback": {"ok": True},
}
"""An answer of every operation with one kind of them in JSON."""
ARGUMENTS: Final[dict[str, Json]] = {
    "decide": {
        "session": "<session from start_session>",
        "case_id": _CASE,
        "text": "Train or car for a weekend trip?",
        "language": "en",
    },
}
"""A tool's arguments, where they are shown."""

VOTE_INPUT: Final = (
    '{"result_id": "<result_id from your result>", "helpful": false, "reason": "missing_constraint"}'
)
REPORT_INPUT: Final[Json] = {
    "request_id": "<32 lowercase hex characters>",
    "kind": "general",
    "message": "<user-authorized message>",
    "email": "",
    "language": "fr",
    "source": "agent",
    "version": "unknown",
    "screen": "other",
    "response": None,
}


def pretty(value: object) -> str:
    """Give JSON for reading."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


# --- commands ---------------------------------------------------------------------------------------------------------

_AUTHORIZATION = '-H "Authorization: Bearer ${DILEM_SESSION:?}"'
_CASE_HEADER = f"-H 'X-Dilem-Case-ID: {_CASE}'"


def start_session(base: str) -> str:
    """Create an identity and keep its token in a variable."""
    return f"""\
DILEM_SESSION=$(curl --fail-with-body --silent --show-error --max-time {SHORT_SECONDS} \\
  {base}{API}/session \\
  -H 'Content-Type: application/json' -d '{{}}' | \\
  python3 -c 'import json, sys; print(json.load(sys.stdin)["session"])')"""


def get_usage(base: str) -> str:
    """Ask for credits and a case."""
    return f"""\
curl --fail-with-body --max-time {SHORT_SECONDS} {base}{API}/usage \\
  {_AUTHORIZATION} \\
  {_CASE_HEADER}"""


def decide(base: str) -> str:
    """Send a first turn."""
    body = (
        '{"text":"Train or car for a weekend trip?","language":"en","refinements":[],'
        '"clarification_count":0,"clarification_version":2}'
    )
    return f"""\
curl --fail-with-body --max-time {CLIENT_SECONDS} --output result.json {base}{API}/decide \\
  {_AUTHORIZATION} \\
  {_CASE_HEADER} \\
  -H 'Content-Type: application/json' \\
  -d '{body}'"""


CARD_INPUT: Final = (
    'python3 -c \'import json, sys; print(json.dumps({"result": json.load(sys.stdin), '
    '"language": "fr", "theme": "light"}))\' < result.json > card-input.json'
)


def export_card(base: str) -> str:
    """Have a card drawn."""
    return f"{_posted(base, 'result-card', 'card-input.json')} --output dilem.png"


def vote(base: str) -> str:
    """Record a vote."""
    return _posted(base, "feedback", "feedback-input.json")


def report(base: str) -> str:
    """Send a message."""
    return _posted(base, "user-feedback", "user-feedback-input.json")


def _posted(base: str, path: str, file: str) -> str:
    return f"""\
curl --fail-with-body --max-time {SHORT_SECONDS} {base}{API}/{path} \\
  {_AUTHORIZATION} \\
  -H "Content-Type: application/json" \\
  --data-binary @{file}"""


# --- clients ----------------------------------------------------------------------------------------------------------


class Client(Struct, frozen=True, kw_only=True):
    """How an MCP client is told of the server.

    Attributes:
        file: Its configuration file; empty when a command does it.
        manual: Its own documentation.

    """

    name: str
    file: str = ""
    syntax: str
    text: str
    manual: str


def clients(base: str) -> tuple[Client, ...]:
    """Give the eight clients that are documented."""
    url = base + MCP
    return (
        Client(
            name="Claude Code",
            syntax="bash",
            text=f"claude mcp add --transport http dilem {url}",
            manual="https://code.claude.com/docs/en/mcp",
        ),
        Client(
            name="Codex",
            file="~/.codex/config.toml",
            syntax="toml",
            text=f'[mcp_servers.dilem]\nurl = "{url}"\ntool_timeout_sec = {CLIENT_SECONDS}',
            manual="https://developers.openai.com/codex/mcp/",
        ),
        Client(
            name="Cursor",
            file=".cursor/mcp.json",
            syntax="json",
            text=pretty({"mcpServers": {"dilem": {"url": url}}}),
            manual="https://cursor.com/docs/mcp",
        ),
        Client(
            name="OpenCode",
            file="opencode.json",
            syntax="json",
            text=pretty({"mcp": {"dilem": {"type": "remote", "url": url, "enabled": True, "oauth": False}}}),
            manual="https://opencode.ai/docs/mcp-servers/",
        ),
        Client(
            name="Hermes Agent",
            syntax="bash",
            text=f"hermes mcp add dilem --url {url}",
            manual="https://hermes-agent.nousresearch.com/docs/user-guide/features/mcp",
        ),
        Client(
            name="Mistral Vibe",
            file="~/.vibe/config.toml",
            syntax="toml",
            text=(
                f'[[mcp_servers]]\nname = "dilem"\ntransport = "streamable-http"\nurl = "{url}"\n'
                f"tool_timeout_sec = {CLIENT_SECONDS}\n\n"
                '[mcp_servers.auth]\ntype = "static"\nheaders = {}'
            ),
            manual="https://docs.mistral.ai/vibe/code/cli/mcp-servers",
        ),
        Client(
            name="OpenClaw",
            file="~/.openclaw/openclaw.json",
            syntax="json",
            text=pretty(
                {
                    "mcp": {
                        "servers": {
                            "dilem": {
                                "url": url,
                                "transport": "streamable-http",
                                "enabled": True,
                                "connectionTimeoutMs": 10000,
                                "requestTimeoutMs": CLIENT_SECONDS * 1000,
                            }
                        }
                    }
                }
            ),
            manual="https://docs.openclaw.ai/tools/mcp",
        ),
        Client(
            name="Pi",
            file="~/.pi/agent/mcp.json",
            syntax="json",
            text=pretty({"mcpServers": {"dilem": {"url": url, "timeout": CLIENT_SECONDS}}}),
            manual="https://pi.dev/docs/latest/mcp",
        ),
    )
