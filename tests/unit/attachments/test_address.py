"""Addresses that the provider will fetch."""

from __future__ import annotations

import pytest

from gateway.attachments.address import problem_of, type_of


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.pdf",
        "HTTPS://EXAMPLE.com/a.pdf",
        "https://example.com",
        "https://example.com:8443/a?b=c&d=%20#e",
        "https://xn--caff-8oa.it/a%C3%A8.pdf",
        "https://my_bucket.s3.amazonaws.com/a.pdf?X-Amz-Signature=0a&X-Amz-Date=1",
        "https://203.0.113.9/a.pdf",
        "https://[2001:db8::1]/a.pdf",
        "https://example.com./a.pdf",
        "https://example.com/@someone/a.pdf",
        "https://example.com/a'(1)[2]{3}.pdf",
        "https://example.com/" + "a" * 2028,
    ],
)
def test_accepted(url: str) -> None:
    assert problem_of(url) is None


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("", "vuoto"),
        ("https://example.com/" + "a" * 2029, "2049 caratteri"),
        ("http://example.com/a.pdf", "https://"),
        ("ftp://example.com/a.pdf", "https://"),
        ("file:///etc/passwd", "https://"),
        ("//example.com/a.pdf", "https://"),
        ("example.com/a.pdf", "https://"),
        ("data:application/pdf;base64,JVBERi0=", "'dati'"),
        ("https://user@example.com/a.pdf", "nome utente"),
        ("https://user:word@example.com/a.pdf", "nome utente"),
        ("https://@example.com/a.pdf", "nome utente"),
        ("https://example.com\\@evil.example/a.pdf", "caratteri"),
        ("https://example.com/a b.pdf", "caratteri"),
        (" https://example.com/a.pdf", "caratteri"),
        ("https://example.com/a.pdf\n", "caratteri"),
        ("https://exa\tmple.com/a.pdf", "caratteri"),
        ("https://example.com/\x00.pdf", "caratteri"),
        ("https://example.com/\x7f.pdf", "caratteri"),
        ("https://example.com/perché.pdf", "caratteri"),
        ("https://perché.it/a.pdf", "caratteri"),
        ("https://", "non valido"),
        ("https:///a.pdf", "non valido"),
        ("https://:443/a.pdf", "non valido"),
        ("https://example.com:/a.pdf", "non valido"),
        ("https://example.com:0/a.pdf", "non valido"),
        ("https://example.com:99999/a.pdf", "non valido"),
        ("https://example.com:x/a.pdf", "non valido"),
        ("https://exa..mple.com/a.pdf", "non valido"),
        ("https://-example.com/a.pdf", "non valido"),
        ("https://exam%70le.com/a.pdf", "non valido"),
        ("https://" + "a" * 64 + ".com/a.pdf", "non valido"),
        ("https://" + "a." * 130 + "com/a.pdf", "non valido"),
        ("https://999.1.1.1/a.pdf", "non valido"),
        ("https://2130706433/a.pdf", "non valido"),
        ("https://[::1/a.pdf", "non valido"),
        ("https://[v1.a]/a.pdf", "non valido"),
    ],
)
def test_refused(url: str, part: str) -> None:
    problem = problem_of(url)
    assert problem is not None
    assert part in problem


@pytest.mark.parametrize(
    ("path", "said", "kind"),
    [
        ("a.jpg", None, "image/jpeg"),
        ("a.JPEG", None, "image/jpeg"),
        ("a.Png", None, "image/png"),
        ("a.gif?x=.pdf", None, "image/gif"),
        ("a.webp#page", None, "image/webp"),
        ("a.jpg", "application/pdf", "image/jpeg"),
        ("a.jpg", "image/png", "image/jpeg"),
        ("a.pdf", None, None),
        ("a.pdf", "image/png", None),
        ("a.PDF", "image/png", None),
        ("a", None, None),
        ("a?f=b.jpg", None, None),
        ("jpg", None, None),
        ("a.jpg/", None, "image/jpeg"),
        ("a.jpg/download", None, None),
        ("show.php?id=1", "image/png", "image/png"),
        ("show.php?id=1", " IMAGE/JPG ; q=1", "image/jpeg"),
        ("show.php?id=1", "image/heic", "image/heic"),
        ("show.php?id=1", "text/html", None),
        ("", "image/webp", "image/webp"),
    ],
)
def test_type(path: str, said: str | None, kind: str | None) -> None:
    assert type_of(f"https://example.com/{path}", said) == kind
