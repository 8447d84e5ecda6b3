"""`pepper` as an operator runs it: a process with its environment, its two outputs and its exit status."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import gateway.cli
from tests.services import LOOPBACK, find_free_port

ROOT = Path(__file__).parents[2]
SECRET = "a secret for the command line's tests, long enough"
KEY = re.compile(r"pk_[A-Za-z0-9_-]{43}")
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
SECONDS = 60.0
FOREIGN = ("PEPPER_", "ANTHROPIC_", "OPENAI_")


class Ran:
    """A command that has ended."""

    def __init__(self, status: int, out: bytes, err: bytes) -> None:
        self.status = status
        self.out = out.decode()
        self.err = err.decode()

    @property
    def json(self) -> Any:
        """The one document on standard output."""
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line on standard error of a command that did nothing."""
        assert self.out == ""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("pepper: ")
        return self.err


class Pepper:
    """The command line over one set of stores: each command in a process of its own (`spawn`, `start`), or, as most of
    a process's time goes into its imports, in this one with outputs, input and environment of its own (`run`)."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.data = folder / "data"
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self.environment = {**own, "PEPPER_DATA": str(self.data), "PYTHONPATH": str(ROOT), **environment}
        self.folder = folder

    def under(self, **changed: str) -> Pepper:
        """The same stores, with other variables."""
        return Pepper(self.folder, **{**self.environment, **changed})

    def start(self, *words: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", *words], env=self.environment, cwd=self.folder, **options
        )

    def spawn(self, *words: str | bytes, given: bytes = b"") -> Ran:
        pipe = subprocess.PIPE
        with self.start(*words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            out, err = process.communicate(given, timeout=SECONDS)
        return Ran(process.returncode, out, err)

    def run(self, *words: str, given: bytes = b"") -> Ran:
        out, err = _output(), _output()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(os, "environ", self.environment)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            status = gateway.cli.run(words)
        out.flush()
        err.flush()
        return Ran(status, out.buffer.getvalue(), err.buffer.getvalue())

    def done(self, *words: str, given: bytes = b"") -> str:
        """Run what must succeed; what it printed."""
        ran = self.run(*words, given=given)
        assert ran.status == 0, ran.err
        return ran.out

    def told(self, *words: str) -> Any:
        """Run what must succeed with `--json`; the document."""
        return json.loads(self.done(*words, "--json"))

    def refused(self, *words: str, status: int = 1) -> str:
        """Run what must be refused; the complaint."""
        ran = self.run(*words)
        assert ran.status == status, (ran.out, ran.err)
        return ran.complaint

    def project(self, name: str) -> dict[str, Any]:
        return next(one for one in self.told("project", "list") if one["progetto"] == name)


class _Output(io.TextIOWrapper):
    buffer: io.BytesIO


def _output() -> _Output:
    return _Output(io.BytesIO(), encoding="utf-8")


@pytest.fixture
def pepper(tmp_path: Path) -> Pepper:
    """Over an embedded store that isn't there yet."""
    return Pepper(tmp_path)


# --- the first command --------------------------------------------------------------------------------------------


def test_the_first_command_does_what_the_first_start_does(pepper: Pepper) -> None:
    first = pepper.spawn("project", "list", "--json")
    assert first.status == 0
    assert [(one["progetto"], one["prova"], one.get("interno")) for one in first.json] == [
        ("demo", True, None),
        ("dilem", False, True),
    ]
    assert len(KEY.findall(first.err)) == 1
    assert (pepper.data / "secret").stat().st_mode & 0o777 == 0o600
    again = pepper.spawn("project", "list", "--json")
    assert again.json == first.json
    assert again.err == ""


def test_two_first_commands_at_once_make_one_demo(pepper: Pepper) -> None:
    commands = [
        ("project", "list", "--json"),
        ("key", "list", "demo", "--json"),
        ("model", "list", "--json"),
        ("doctor", "--json"),
    ]
    with ThreadPoolExecutor(len(commands)) as pool:
        ran = list(pool.map(lambda words: pepper.spawn(*words), commands))
    assert [one.status for one in ran] == [0, 0, 0, 0], [one.err for one in ran]
    keys = [key for one in ran for key in KEY.findall(one.err)]
    assert len(keys) == 1
    assert all(isinstance(one.json, list | dict) for one in ran)
    assert [one["progetto"] for one in pepper.told("project", "list")] == ["demo", "dilem"]
    assert len(pepper.told("key", "list", "demo")) == 1
    assert len(pepper.told("model", "list")) == 3


def test_a_first_command_that_is_refused_tells_the_demo_key_too(pepper: Pepper) -> None:
    ran = pepper.run("key", "list", "nobody", "--json")
    assert ran.status == 1
    assert ran.out == ""
    assert len(KEY.findall(ran.err)) == 1
    assert ran.err.splitlines()[-1] == "pepper: there is no project nobody"


# --- projects and keys --------------------------------------------------------------------------------------------


def test_the_life_of_a_project(pepper: Pepper) -> None:
    pepper.done("migrate")
    added = pepper.told("project", "add", "negozio")
    assert list(added) == ["progetto", "chiave"]
    assert added["progetto"] == "negozio"
    assert KEY.fullmatch(added["chiave"])
    assert pepper.project("negozio") == {
        "progetto": "negozio",
        "attivo": True,
        "permessi": [],
        "limite_orario": 100,
        "tetto_usd": None,
        "modello": "Pepper 6",
        "domini": [],
        "prova": False,
        "creato_il": pepper.project("negozio")["creato_il"],
    }
    assert DATE.fullmatch(pepper.project("negozio")["creato_il"])

    everything = [
        "--allow",
        "internet,documenti",
        "--per-hour",
        "7",
        "--daily-budget",
        "2.50",
        "--model",
        "Pepper 7",
    ]
    everything += ["--domains", "Esempio.IT,perché.it", "--sandbox"]
    assert pepper.told("project", "set", "negozio", *everything) == {"ok": True}
    changed = pepper.project("negozio")
    assert changed["permessi"] == ["documenti", "internet"]
    assert (changed["limite_orario"], changed["tetto_usd"], changed["modello"]) == (7, 2.5, "Pepper 7")
    assert (changed["domini"], changed["prova"]) == (["esempio.it", "xn--perch-fsa.it"], True)

    pepper.told("project", "set", "negozio", "--per-hour", "8")
    assert pepper.project("negozio") == changed | {"limite_orario": 8}

    nothing = ["--allow", "", "--domains", "", "--daily-budget", "none", "--model", "default", "--no-sandbox"]
    pepper.told("project", "set", "negozio", *nothing)
    cleared = pepper.project("negozio")
    assert (cleared["permessi"], cleared["domini"], cleared["tetto_usd"]) == ([], [], None)
    assert (cleared["modello"], cleared["prova"]) == ("Pepper 6", False)

    assert pepper.told("project", "disable", "negozio") == {"ok": True}
    assert pepper.project("negozio")["attivo"] is False
    assert pepper.told("project", "enable", "negozio") == {"ok": True}
    assert pepper.project("negozio")["attivo"] is True

    assert "--yes" in pepper.refused("project", "remove", "negozio", status=2)
    assert pepper.told("project", "remove", "negozio", "--yes") == {"ok": True}
    assert "negozio" not in [one["progetto"] for one in pepper.told("project", "list")]
    assert "no project negozio" in pepper.refused("project", "remove", "negozio", "--yes")
    assert "no project negozio" in pepper.refused("key", "list", "negozio")


def test_everything_can_be_said_at_the_creation(pepper: Pepper) -> None:
    everything = ["--allow", "documenti,immagini,differito,internet,agente,conoscenza", "--per-hour", "5"]
    everything += [
        "--daily-budget",
        "0.000001",
        "--model",
        "Pepper 6 · OpenAI",
        "--domains",
        "a.it,b.it",
        "--sandbox",
    ]
    pepper.done("project", "add", "tutto", *everything)
    told = pepper.project("tutto")
    assert told["permessi"] == ["documenti", "immagini", "differito", "internet", "agente", "conoscenza"]
    assert (told["limite_orario"], told["tetto_usd"], told["modello"]) == (5, 0.000001, "Pepper 6 · OpenAI")
    assert (told["domini"], told["prova"]) == (["a.it", "b.it"], True)


def test_the_life_of_a_key(pepper: Pepper) -> None:
    first = pepper.told("project", "add", "negozio")["chiave"]
    added = pepper.told("key", "add", "negozio", "--label", "la macchina nuova")
    assert list(added) == ["progetto", "chiave", "id"]
    keys = pepper.told("key", "list", "negozio")
    assert [list(one) for one in keys] == [["id", "etichetta", "creata_il", "ultimo_uso", "revocata_il"]] * 2
    assert keys[1]["id"] == added["id"]
    assert keys[1]["etichetta"] == "la macchina nuova"
    assert DATE.fullmatch(keys[1]["creata_il"])
    assert keys[1]["ultimo_uso"] is keys[1]["revocata_il"] is None

    assert pepper.told("key", "revoke", "negozio", str(keys[0]["id"])) == {"ok": True}
    assert DATE.fullmatch(pepper.told("key", "list", "negozio")[0]["revocata_il"])
    assert "no live key" in pepper.refused("key", "revoke", "negozio", str(keys[0]["id"]))
    assert "no live key" in pepper.refused("key", "revoke", "demo", str(added["id"]))

    shown = pepper.done("key", "list", "negozio") + pepper.done("project", "list")
    stored = b"".join(path.read_bytes() for path in pepper.data.iterdir())
    for secret in (first, added["chiave"]):
        assert secret not in shown
        assert secret.encode() not in stored


def test_the_gateways_own_project_is_left_alone(pepper: Pepper) -> None:
    pepper.done("migrate")
    assert "reserved" in pepper.refused("project", "add", "dilem")
    assert "no keys" in pepper.refused("key", "add", "dilem")
    assert "cannot be removed" in pepper.refused("project", "remove", "dilem", "--yes")
    assert pepper.told("key", "list", "dilem") == []
    assert pepper.told("project", "set", "dilem", "--sandbox") == {"ok": True}
    assert pepper.project("dilem")["prova"] is True
    assert pepper.project("dilem")["interno"] is True


def test_what_exists_or_does_not_is_said_in_one_line(pepper: Pepper) -> None:
    pepper.done("project", "add", "negozio")
    assert "exists already" in pepper.refused("project", "add", "negozio")
    assert "no model 'Pepper 99'" in pepper.refused("project", "add", "altro", "--model", "Pepper 99")
    assert "no project altro" in pepper.refused("key", "add", "altro")
    assert "no project altro" in pepper.refused("project", "set", "altro", "--sandbox")
    assert "no project altro" in pepper.refused("project", "disable", "altro")
    assert "altro" not in pepper.done("project", "list")


# --- wrong usage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("project", "nonsense"),
        ("project", "add"),
        ("project", "add", "Negozio"),
        ("project", "add", "\udcff\udcfe"),
        ("project", "add", "'; DROP TABLE projects; --"),
        ("project", "add", "a\nb"),
        ("project", "add", "negozio", "--per-hour", "-1"),
        ("project", "add", "negozio", "--daily-budget", "NaN"),
        ("project", "add", "negozio", "--daily-budget", "-inf"),
        ("project", "add", "negozio", "--allow", "tutto"),
        ("project", "add", "negozio", "--domains", "https://a.it/"),
        ("project", "add", "negozio", "--nonsense"),
        ("project", "set", "negozio"),
        ("key", "revoke", "demo", "x"),
        ("key", "revoke", "demo", "9" * 40),
        ("recipe", "set", "riassumi"),
        ("recipe", "set", "riassumi", "--level", "alto"),
        ("recipe", "variant", "riassumi", "--project", "demo"),
        ("recipe", "variant", "riassumi", "--project", "demo", "--file", "x", "--remove"),
        ("model", "add", "Pepper 8"),
        ("model", "set", "Pepper 6"),
        ("model", "set", "Pepper 6", "--fallback", "nobody"),
        ("price", "set", "x", "--input", "1"),
        ("price", "set", "x", "--input", "1", "--output", "inf"),
    ],
)
def test_wrong_usage_is_one_line_and_touches_nothing(pepper: Pepper, words: tuple[str, ...]) -> None:
    assert "--help)" in pepper.refused(*words, status=2)
    assert not pepper.data.exists()


def test_help_needs_nothing(pepper: Pepper) -> None:
    for words in ((), ("project",), ("project", "add"), ("doctor",), ("serve",)):
        ran = pepper.under(PEPPER_TIMEZONE="nowhere", PEPPER_DATABASE_URL="nonsense").run(*words, "--help")
        assert (ran.status, ran.err) == (0, "")
        assert ran.out.startswith("Usage: pepper")
    assert not pepper.data.exists()


def test_no_command_at_all_is_answered_with_the_help(pepper: Pepper) -> None:
    ran = pepper.run()
    assert (ran.status, ran.out) == (2, "")
    assert "Usage: pepper" in ran.err


def test_help_loads_no_library_of_stores_or_providers(pepper: Pepper) -> None:
    heavy = (
        "{'sqlalchemy', 'alembic', 'aiomysql', 'redis', 'anthropic', 'openai', 'litestar', 'genai_prices'}"
    )
    for words in (
        [],
        ["project"],
        ["project", "add"],
        ["key", "list"],
        ["recipe"],
        ["model"],
        ["price"],
        ["doctor"],
    ):
        program = f"import sys, gateway.cli; gateway.cli.run({[*words, '--help']}); print({heavy} & set(sys.modules))"
        shown = subprocess.check_output([sys.executable, "-c", program], env=pepper.environment, text=True)
        assert shown.splitlines()[-1] == "set()", words


def test_a_command_loads_no_provider(pepper: Pepper) -> None:
    program = (
        "import sys, gateway.cli; gateway.cli.run(['project', 'list']);"
        "print({'anthropic', 'openai', 'litestar', 'redis', 'genai_prices'} & set(sys.modules))"
    )
    shown = subprocess.check_output(
        [sys.executable, "-c", program], env=pepper.environment, text=True, stderr=subprocess.DEVNULL
    )
    assert shown.splitlines()[-1] == "set()"


# --- the environment and the outside ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PEPPER_TIMEZONE", "Mars/Olympus"),
        ("PEPPER_DATABASE_URL", "oracle://x"),
        ("PEPPER_SECRET", "short"),
        ("PEPPER_RECIPES", "/nowhere"),
        ("PEPPER_DATA", "/dev/null"),
    ],
)
def test_a_wrong_variable_is_named(pepper: Pepper, variable: str, value: str) -> None:
    assert f"pepper: {variable}: " in pepper.under(**{variable: value}).refused("project", "list")


def test_another_secret_is_refused(pepper: Pepper) -> None:
    pepper.done("migrate")
    assert "PEPPER_SECRET" in pepper.under(PEPPER_SECRET=SECRET).refused("project", "add", "negozio")


def test_a_database_that_is_away_is_said_in_one_line(pepper: Pepper) -> None:
    url = f"mysql://u:topsecret@{LOOPBACK}:{find_free_port()}/x"
    for words in (("project", "list"), ("migrate",)):
        complaint = pepper.under(PEPPER_DATABASE_URL=url).refused(*words)
        assert "does not answer" in complaint
        assert "topsecret" not in complaint


def test_a_damaged_store_is_said_in_one_line(pepper: Pepper) -> None:
    pepper.data.mkdir()
    (pepper.data / "pepper.db").write_bytes(b"not a database at all" * 1000)
    assert "pepper:" in pepper.refused("project", "list")


def test_days_are_told_in_the_operators_zone(pepper: Pepper) -> None:
    clock = pepper.folder / "clock"
    clock.write_text("2026-07-01T22:30:00+00:00")
    pepper.environment["PEPPER_CLOCK_FILE"] = str(clock)
    pepper.done("project", "add", "negozio")
    assert pepper.project("negozio")["creato_il"] == "2026-07-02 00:30:00"
    pepper.environment["PEPPER_TIMEZONE"] = "America/New_York"
    assert pepper.project("negozio")["creato_il"] == "2026-07-01 18:30:00"


def test_names_survive_a_terminal_without_unicode(pepper: Pepper) -> None:
    pepper.done("key", "add", "demo", "--label", "più 🗝")
    poor = pepper.under(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="iso-8859-1")
    process = poor.start("key", "list", "demo", stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert "più \\U0001f5dd".encode("iso-8859-1") in out
    assert poor.spawn("key", "list", "demo", "--json").json[1]["etichetta"] == "più 🗝"


def test_a_full_disk_behind_the_output_is_one_line(pepper: Pepper) -> None:
    pepper.done("migrate")
    with Path("/dev/full").open("wb") as full:
        process = pepper.start("project", "list", stdout=full, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert err.startswith(b"pepper: ")
    assert err.count(b"\n") == 1


def test_a_reader_that_has_enough_is_no_error(pepper: Pepper) -> None:
    pepper.done("migrate")
    process = pepper.start("price", "list", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(SECONDS) == 1
    process.stderr.close()
    assert err == b""


def test_ctrl_c_ends_a_command_without_a_word(pepper: Pepper) -> None:
    words = ("recipe", "variant", "riassumi", "--project", "demo", "--file", "-")
    process = pepper.start(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _wait_until_it_reads(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def _wait_until_it_reads(process: subprocess.Popen[bytes]) -> None:
    """Until it has imported what it needs and sleeps in its reading."""
    until = time.monotonic() + SECONDS
    quiet = 0
    before = -1.0
    while quiet < 5 and time.monotonic() < until:
        used = subprocess.check_output(["ps", "-o", "cputimes=", "-p", str(process.pid)])
        quiet = quiet + 1 if float(used) == before else 0
        before = float(used)
        time.sleep(0.2)


# --- beside a running server --------------------------------------------------------------------------------------


@contextmanager
def serving(pepper: Pepper) -> Iterator[str]:
    port = find_free_port()
    process = pepper.start("serve", "--port", str(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://{LOOPBACK}:{port}"
    try:
        _within(SECONDS, lambda: httpx.get(f"{address}/stato.php?pronto=1").status_code == 200)
        yield address
    finally:
        process.terminate()
        process.wait(SECONDS)


def _within(seconds: float, true: Any) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            if true():
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_commands_change_reaches_a_running_server_within_two_seconds(pepper: Pepper) -> None:
    with serving(pepper) as address:
        key = pepper.told("project", "add", "negozio", "--sandbox")["chiave"]

        def ask() -> httpx.Response:
            body = {"progetto": "negozio", "encode": "libero", "contenuto": "Ciao"}
            return httpx.post(f"{address}/api.php", json=body, headers={"X-Pepper-Key": key})

        _within(2, lambda: ask().status_code == 200)
        pepper.done("project", "set", "negozio", "--per-hour", "1")
        _within(2, lambda: ask().status_code == 429)
        pepper.done("project", "disable", "negozio")
        _within(2, lambda: ask().status_code == 401)
        pepper.done("project", "enable", "negozio")
        pepper.done("project", "set", "negozio", "--per-hour", "50")
        _within(2, lambda: ask().status_code == 200)
        assert DATE.fullmatch(pepper.told("key", "list", "negozio")[0]["creata_il"])
        pepper.done("project", "remove", "negozio", "--yes")
        _within(2, lambda: ask().status_code == 401)
