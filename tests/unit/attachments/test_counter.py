"""The judgement of a counting process, without the process."""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys

import pytest

from gateway.attachments import counter
from gateway.attachments.counter import judge, serve
from gateway.attachments.verdicts import ANSWER, HEADER, Outcome, Verdict
from tests.unit.attachments import corpus


def verdict(data: bytes) -> Verdict:
    return judge(base64.b64encode(data))


@pytest.mark.parametrize("pages", [1, 100, 601, 3000])
def test_pages(pages: int) -> None:
    assert verdict(corpus.pdf(pages)) == Verdict(Outcome.COUNTED, pages)


@pytest.mark.parametrize("said", [-1, 0, 1, 10**9])
def test_what_the_file_says_is_not_believed(said: int) -> None:
    assert verdict(corpus.lying(3, said)) == Verdict(Outcome.COUNTED, 3)


def test_blanks_before_it_do_no_harm() -> None:
    assert verdict(b"\xef\xbb\xbf\r\n" + corpus.pdf(5)) == Verdict(Outcome.COUNTED, 5)


@pytest.mark.parametrize("password", ["", "segreto"])
@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256"])
def test_encrypted(password: str, algorithm: str) -> None:
    assert verdict(corpus.encrypted(password, algorithm)) == Verdict(Outcome.ENCRYPTED)


def test_encrypted_in_a_way_nobody_knows() -> None:
    data = corpus.encrypted("segreto").replace(b"/Standard", b"/Sdrandat")
    assert verdict(data) == Verdict(Outcome.ENCRYPTED)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"%PDF-1.7\n",
        b"%PDF-1.7\n" + b"\x00" * 5000,
        corpus.pdf(100)[:6000],
        corpus.pdf(100)[:-300],
        corpus.cyclic(),
        corpus.assembled({1: b"<< /Type /Catalog >>"}),
        corpus.assembled({1: b"<< /Type /Catalog /Pages 7 0 R >>"}),
        corpus.assembled({1: corpus.CATALOG, 2: b"[1 2 3]"}),
    ],
)
def test_damaged(data: bytes) -> None:
    assert verdict(data) == Verdict(Outcome.DAMAGED)


def test_no_pages() -> None:
    assert verdict(corpus.no_pages()) == Verdict(Outcome.NO_PAGES)


def test_deep_nesting_ends() -> None:
    assert verdict(corpus.deep_tree(5000)) == Verdict(Outcome.TOO_COMPLEX)
    assert verdict(corpus.deep_array(50_000)).outcome in {Outcome.DAMAGED, Outcome.TOO_COMPLEX}


def test_a_bomb_is_not_unpacked() -> None:
    assert verdict(corpus.object_stream_bomb(100, 3)) == Verdict(Outcome.COUNTED, 3)
    assert verdict(corpus.object_stream_bomb(90 << 20)) == Verdict(Outcome.TOO_COMPLEX)


def test_memory_and_recursion_are_told_from_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (MemoryError, RecursionError):

        def fail(_: bytes, error: type[Exception] = error) -> int:
            raise error

        monkeypatch.setattr(counter, "count_pages", fail)
        assert verdict(corpus.pdf()) == Verdict(Outcome.TOO_COMPLEX)


def test_files_are_served_until_the_input_ends() -> None:
    written = base64.b64encode(corpus.pdf(2))
    out, into = os.pipe()
    for cut in (b"", b"\x00\x00", HEADER.pack(len(written)) + written[:10]):
        serve(io.BytesIO(HEADER.pack(len(written)) + written + cut), into)
        assert ANSWER.unpack(os.read(out, 100)) == (Outcome.COUNTED, 2)
    os.close(out)
    os.close(into)


def test_a_counting_process_can_write_no_file_and_has_little_memory() -> None:
    script = (
        "import resource as r; from gateway.attachments.counter import limit_resources, MEMORY_BYTES\n"
        "limit_resources()\n"
        "assert r.getrlimit(r.RLIMIT_FSIZE) == r.getrlimit(r.RLIMIT_CORE) == (0, 0)\n"
        "import sys\n"
        "if sys.platform == 'linux':\n"
        "    try: bytearray(MEMORY_BYTES)\n"
        "    except MemoryError: print('refused')\n"
        "else:\n"
        "    big = bytes(range(256)) * (MEMORY_BYTES // 200)\n"
        "    import time; time.sleep(5)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, text=True)
    assert (done.stdout.strip(), done.returncode) == ("refused", 0) or done.returncode == 3, done.stderr
