"""OpenAI, or any server that speaks its chat completions."""

from gateway.providers.openai.adapter import OpenAI

__all__ = ["OpenAI"]
