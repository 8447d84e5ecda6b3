"""What a file is by its first bytes."""

from __future__ import annotations

import pytest

from gateway.attachments.photo import PDF_TYPE, type_by_bytes, what_else, why_not_this_type
from gateway.domain.limits import IMAGE_TYPES
from tests.unit.attachments import corpus


@pytest.mark.parametrize(("media_type", "photo"), corpus.PHOTOS.items())
def test_photos(media_type: str, photo: bytes) -> None:
    assert media_type in IMAGE_TYPES
    assert type_by_bytes(photo) == media_type


@pytest.mark.parametrize("photo", corpus.PHOTOS.values(), ids=corpus.PHOTOS.keys())
def test_a_photo_cut_within_its_signature_is_none(photo: bytes) -> None:
    assert type_by_bytes(photo[:2]) is None
    assert "non è un file leggibile" in what_else(photo[:2])


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\r\n\n", b"\xef\xbb\xbf \t\x00", b" " * 1019])
def test_a_pdf_may_come_after_blanks(before: bytes) -> None:
    assert type_by_bytes(before + b"%PDF-1.7") == PDF_TYPE


@pytest.mark.parametrize("before", [b"x", b"\xff", b"From: a\n\n", b" " * 1020])
def test_a_pdf_does_not_come_after_anything_else(before: bytes) -> None:
    assert type_by_bytes(before + b"%PDF-1.7") is None


@pytest.mark.parametrize("name", corpus.OTHERS)
def test_other_files_are_named(name: str) -> None:
    head = corpus.OTHERS[name]
    assert type_by_bytes(head) is None
    said = what_else(head)
    expected = {
        "MP4": "video",
        "docx": "Office",
        "doc": "Office",
        "text": "JPEG, PNG, GIF o WebP",
        "a PDF after a letter": "JPEG, PNG, GIF o WebP",
        "a PDF twice in base64": "due volte",
    }
    assert expected.get(name, name.split(maxsplit=1)[0]) in said


@pytest.mark.parametrize("head", [corpus.HEIC, corpus.MIF1])
def test_iphone_photos_are_to_be_converted(head: bytes) -> None:
    assert type_by_bytes(head) is None
    assert "convertita in JPEG" in what_else(head)


@pytest.mark.parametrize("head", [corpus.AVIF, corpus.MIF1_AVIF])
def test_avif_is_not_taken_for_heic(head: bytes) -> None:
    assert "AVIF" in what_else(head)


@pytest.mark.parametrize("head", [b"", b"\x00", b"RIFF\x00\x00\x00\x00WAVE", b"GIF88a", b"\x89PNG\n\n"])
def test_the_rest_is_not_readable(head: bytes) -> None:
    assert type_by_bytes(head) is None
    assert "JPEG, PNG, GIF o WebP" in what_else(head)


def test_named_types() -> None:
    assert [why_not_this_type(one) for one in IMAGE_TYPES] == [None] * 4
    assert "convertita in JPEG" in (why_not_this_type("image/heif") or "")
    assert "PNG" in (why_not_this_type("image/svg+xml") or "")
