"""What stands around a served gateway: its stores and its providers, and the variables that tell it of them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fakes import ClaudeServer, OpenAIServer
from tests.services import MariaDb, Postgres, Redis


@dataclass
class Stores:
    """Where a gateway keeps what it keeps: in its data folder alone, or on the servers of a production."""

    kind: str
    database_url: str | None = None
    mariadb: MariaDb | None = None
    redis: Redis | None = None
    vector_url: str | None = None
    postgres: Postgres | None = None

    @property
    def environment(self) -> dict[str, str]:
        found = {
            "PEPPER_DATABASE_URL": self.database_url,
            "PEPPER_REDIS_URL": self.redis and self.redis.url,
            "PEPPER_VECTOR_URL": self.vector_url,
        }
        return {name: value for name, value in found.items() if value}


@dataclass
class Fakes:
    """The providers."""

    claude: ClaudeServer
    openai: OpenAIServer

    @property
    def environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_API_KEY": self.claude.key,
            "ANTHROPIC_BASE_URL": self.claude.url,
            "OPENAI_API_KEY": self.openai.key,
            "OPENAI_BASE_URL": self.openai.url,
        }
