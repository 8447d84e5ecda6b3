"""Mails a letter through the server that an owner has named, once, over a connection of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import format_datetime

from aiosmtplib import (
    SMTP,
    SMTPAuthenticationError,
    SMTPException,
    SMTPRecipientsRefused,
    SMTPResponseException,
    SMTPTimeoutError,
)

from gateway.domain.alerts import Letter
from gateway.domain.notices import Delivery
from gateway.domain.operator_settings import MailServer, Security
from gateway.notices.courier import FAULTY, TIMED_OUT, UNKNOWN_NAME, UNREACHABLE, UNTRUSTED

MAIL_SECONDS = 20.0
"""For all of it."""
GOODBYE_SECONDS = 2.0
ACCEPTED = "250"
LOGIN_REFUSED = "accesso_rifiutato"
RECIPIENTS_REFUSED = "destinatari_rifiutati"
NOT_OFFERED = "non_offerto"
"""STARTTLS, or a way to log in, that the server doesn't have."""

log = logging.getLogger(__name__)


class Postman:
    """Sends mail."""

    def __init__(self, tls: Callable[[], ssl.SSLContext]) -> None:
        """Send nothing yet; `tls` gives the certificates to trust and may be slow."""
        self._tls = tls

    async def deliver(
        self,
        server: MailServer,
        password: str | None,
        recipients: Sequence[str],
        letter: Letter,
        *,
        name: str,
        at: datetime,
    ) -> Delivery:
        """Try once to hand a letter to the server. Takes some twenty seconds at most.

        Args:
            server: Who takes it, and whom it is from.
            password: Of the server's user, if it has one.
            recipients: All of them see each other.
            letter: Subject and text.
            name: Names the letter, the same at every attempt.
            at: Its date.

        """
        began = time.monotonic()
        outcome = await self._outcome(server, password, _message(server, recipients, letter, name, at))
        took = round((time.monotonic() - began) * 1000)
        return Delivery(outcome=outcome, delivered=outcome == ACCEPTED, duration_ms=took)

    async def _outcome(self, server: MailServer, password: str | None, message: EmailMessage) -> str:
        try:
            async with asyncio.timeout(MAIL_SECONDS):
                certificates = await asyncio.to_thread(self._tls)
                client = SMTP(
                    hostname=server.host,
                    port=server.port,
                    username=server.user or None,
                    password=password if server.user else None,
                    use_tls=server.security is Security.TLS,
                    start_tls=server.security is Security.STARTTLS,
                    tls_context=certificates,
                    timeout=MAIL_SECONDS,
                    local_hostname=_own_name(),
                )
                return await _send(client, message)
        except TimeoutError:  # SMTPTimeoutError is one
            return TIMED_OUT
        except SMTPAuthenticationError:
            return LOGIN_REFUSED
        except SMTPRecipientsRefused:
            return RECIPIENTS_REFUSED
        except SMTPResponseException as error:
            return str(error.code)
        except (SMTPException, OSError) as error:
            return _of_connection(error)
        except (ValueError, MessageError) as error:
            log.info("a mail can't be sent: %s", type(error).__name__)
            return FAULTY


async def _send(client: SMTP, message: EmailMessage) -> str:
    """Hand a message in; from the moment the server has taken it nothing can make it undone."""
    try:
        await client.connect()
        refused, _ = await client.send_message(message)
        if refused:
            log.warning("the mail server takes no mail for %d of the recipients of alerts", len(refused))
        with suppress(SMTPException, OSError):
            await client.quit(timeout=GOODBYE_SECONDS)
        return ACCEPTED
    finally:
        client.close()


def _message(
    server: MailServer, recipients: Sequence[str], letter: Letter, name: str, at: datetime
) -> EmailMessage:
    message = EmailMessage()
    message["From"] = server.sender
    message["To"] = ", ".join(recipients)
    message["Subject"] = letter.subject
    message["Date"] = format_datetime(at)
    message["Message-ID"] = f"<{name}@{server.sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.text, cte="quoted-printable")
    return message


def _of_connection(error: Exception) -> str:
    """What went wrong on the way: the library wraps what the system says."""
    if type(error) is SMTPException:  # the bare one is for extensions that are missing
        return NOT_OFFERED
    seen: BaseException | None = error
    while seen is not None:
        match seen:
            case SMTPTimeoutError():
                return TIMED_OUT
            case ssl.SSLError():
                return UNTRUSTED
            case socket.gaierror():
                return UNKNOWN_NAME
        seen = seen.__cause__ or seen.__context__
    return UNREACHABLE


def _own_name() -> str:
    """What this machine calls itself; looked up nowhere."""
    name = socket.gethostname()
    return name if name.isascii() and name.isprintable() and " " not in name and name else "localhost"
