"""Notices on the wire: what a project's own address is told of a batch that has ended."""

from __future__ import annotations

import msgspec

from gateway.domain.notices import Notice
from gateway.wire.glossary import Wire, words


class NoticeBody(
    Wire, frozen=True, kw_only=True, rename=words(batch="pratica", state="stato", total="quanti")
):
    """The answers are not in it: they are collected."""

    batch: str
    project: str
    state: str
    total: int


def encode_notice(notice: Notice) -> bytes:
    """Encode a notice; the same bytes at every attempt."""
    return msgspec.json.encode(
        NoticeBody(batch=notice.batch, project=notice.project, state=notice.state.value, total=notice.total)
    )
