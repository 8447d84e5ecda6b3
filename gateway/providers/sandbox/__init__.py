"""The provider `prova`: deterministic answers that cost nothing, for the partners' integration tests."""

from gateway.providers.sandbox.adapter import Sandbox

__all__ = ["Sandbox"]
