"""Claude, through Anthropic's Messages API."""

from gateway.providers.claude.adapter import Claude

__all__ = ["Claude"]
