"""The tools a Claude request may bring: its own, and the provider's web search."""

import re

from tests.fakes.claude_blocks import Walk
from tests.fakes.claude_models import ClaudeModel
from tests.fakes.claude_schema import SchemaBudget, check_loosely
from tests.fakes.fields import Field

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALLERS = ("direct", "code_execution_20250825", "code_execution_20260120", "code_execution_20260521")
_FIRST_SEARCH = "web_search_20250305"
_SEARCHES = (_FIRST_SEARCH, "web_search_20260209", "web_search_20260318")
_DOMAIN = re.compile(r"[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+(/[^\s]*)?")
_MOST_STRICT = 20


def check_tools(
    tools: Field, model_name: str, model: ClaudeModel, walk: Walk, budget: SchemaBudget
) -> list[str]:
    """Checks all tools and returns their names."""
    names: list[str] = []
    strict = 0
    for tool in tools.items():
        kind = tool.mapping().get("type")
        if kind is None or kind == "custom":
            parts = _custom(tool.named("custom"), budget)
            strict += "strict" in parts and parts["strict"].boolean()
        else:
            tool.tag(_SEARCHES)
            parts = _web_search(tool.named(kind), model_name, model)
        walk.breakpoint(parts)
        names.append(parts["name"].text())
    if len(names) != len(set(names)):
        raise tools.bad("Tool names must be unique.")
    if strict > _MOST_STRICT:
        raise tools.bad(
            f"Too many strict tools ({strict}). The maximum number of strict tools is {_MOST_STRICT}."
        )
    return names


def check_tool_choice(choice: Field, names: list[str]) -> bool:
    """Whether the choice forces a tool."""
    kind = choice.tag(("auto", "any", "tool", "none"))
    parts = choice.object(
        "type name" if kind == "tool" else "type", "" if kind == "none" else "disable_parallel_tool_use"
    )
    if "disable_parallel_tool_use" in parts:
        parts["disable_parallel_tool_use"].boolean()
    if kind == "tool" and parts["name"].text() not in names:
        raise choice.bad(f"Tool '{parts['name'].value}' not found in provided tools")
    if not names:
        raise choice.bad("tool_choice may only be specified while providing tools.")
    return kind in ("any", "tool")


def _custom(tool: Field, budget: SchemaBudget) -> dict[str, Field]:
    parts = tool.object(
        "name input_schema",
        "allowed_callers description defer_loading input_examples strict",
        "cache_control eager_input_streaming type",
    )
    if not _NAME.fullmatch(parts["name"].text()):
        raise parts["name"].bad("String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
    if "description" in parts:
        parts["description"].text()
    schema = parts["input_schema"]
    check_loosely(schema)
    if "strict" in parts and parts["strict"].boolean():
        budget.spend(schema)
    return parts


def _web_search(tool: Field, model_name: str, model: ClaudeModel) -> dict[str, Field]:
    newest = tool.value["type"] == _SEARCHES[-1]
    parts = tool.object(
        "type name",
        "allowed_callers defer_loading strict" + (" response_inclusion" if newest else ""),
        "allowed_domains blocked_domains cache_control max_uses user_location",
    )
    parts["name"].choice(("web_search",))
    if "max_uses" in parts:
        parts["max_uses"].integer(least=1)
    if "response_inclusion" in parts:
        parts["response_inclusion"].choice(("full", "excluded"))
    if "allowed_domains" in parts and "blocked_domains" in parts:
        raise tool.bad("Only one of allowed_domains or blocked_domains can be specified.")
    for name in ("allowed_domains", "blocked_domains"):
        for domain in parts[name].items(least=1) if name in parts else []:
            if not _DOMAIN.fullmatch(domain.text()):
                raise domain.bad("Invalid domain. Domains must not include a scheme, a port or spaces.")
    if "user_location" in parts:
        place = parts["user_location"].object("type", nullable="city country region timezone")
        place["type"].choice(("approximate",))
        for name in place:
            place[name].text(1, 255)
    callers = (
        [c.choice(_CALLERS) for c in parts["allowed_callers"].items(1)]
        if "allowed_callers" in parts
        else None
    )
    direct = callers == ["direct"] or (callers is None and tool.value["type"] == _FIRST_SEARCH)
    if not direct and not model.programmatic_tools:
        raise tool.bad(
            f"'{model_name}' does not support programmatic tool calling. "
            'Set `allowed_callers` to ["direct"] to use this tool without it.'
        )
    return parts
