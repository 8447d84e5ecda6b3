"""What a project can do is asked once a day: a file keeps it, for this user alone."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.drivers import PROJECT, Call, Driver
from tests.clients.teller import Teller, fail, say

NOW = Call("pepper_capacita", {})
FRESH = Call("pepper_capacita", {"aggiorna": True})


def reply(number: int, project: str = PROJECT) -> dict[str, Any]:
    return {"ok": True, "progetto": project, "puo": {"documenti": True}, "novita": f"la {number}ª"}


def kept(client: Driver) -> Path:
    (file,) = client.temporary.iterdir()
    return file


def test_it_is_kept_for_a_day_in_a_file_that_nobody_else_reads(client: Driver, teller: Teller) -> None:
    teller.script([say(200, reply(1))])
    assert client.run(NOW, NOW)[1].value == reply(1)
    assert client.value(NOW) == reply(1)  # another process
    file = kept(client)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == reply(1)

    almost = time.time() - 86_400 + 100
    os.utime(file, (almost, almost))
    assert client.value(NOW) == reply(1)

    teller.script([say(200, reply(2))], [say(200, reply(3))], [say(200, reply(4))])
    day = time.time() - 86_400
    os.utime(file, (day, day))
    assert client.value(NOW) == reply(2)
    assert client.run(FRESH, NOW)[1].value == reply(3)
    ahead = time.time() + 5000
    os.utime(kept(client), (ahead, ahead))
    assert client.value(NOW) == reply(4)


def test_each_address_and_project_has_its_own(make_client: Callable[..., Driver], teller: Teller) -> None:
    first, second = make_client(teller.url), make_client(teller.url, project="altro")
    third, same = make_client(f"{teller.url}/sotto"), make_client(f"{teller.url}/api.php")
    teller.script(
        *(
            [say(200, reply(number, project))]
            for number, project in ((1, PROJECT), (2, "altro"), (3, PROJECT))
        )
    )
    for _ in range(2):
        assert first.value(NOW) == reply(1)
        assert second.value(NOW) == reply(2, "altro")
        assert third.value(NOW) == reply(3)
        assert same.value(NOW) == reply(1)
    assert len(list(first.temporary.iterdir())) == 3


def test_a_file_that_is_not_its_own_is_not_believed(client: Driver, teller: Teller, tmp_path: Path) -> None:
    teller.script([say(200, reply(1))])
    client.value(NOW)
    file = kept(client)

    def spoil(content: str, mode: int = 0o600) -> None:
        file.unlink()
        file.write_text(content)
        file.chmod(mode)

    evil = json.dumps(reply(666))
    for number, (content, mode) in enumerate(
        [("", 0o600), ("{", 0o600), ("[]", 0o600), (json.dumps(reply(7, "altro")), 0o600), (evil, 0o644), (evil, 0o660)], 2
    ):  # fmt: skip
        spoil(content, mode)
        teller.script([say(200, reply(number))])
        assert client.value(NOW) == reply(number)
        assert stat.S_IMODE(kept(client).stat().st_mode) == 0o600

    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(evil)
    elsewhere.chmod(0o600)
    file.unlink()
    file.symlink_to(elsewhere)
    teller.script([say(200, reply(9))])
    assert client.value(NOW) == reply(9)
    assert elsewhere.read_text() == evil
    assert not kept(client).is_symlink()

    file.unlink()
    file.mkdir()
    teller.script([say(200, reply(10))], [say(200, reply(11))])
    assert [outcome.value for outcome in client.run(NOW, NOW)] == [reply(10), reply(11)]
    assert list(client.temporary.iterdir()) == [file]  # nothing is left about


def test_an_error_is_not_kept(client: Driver, teller: Teller) -> None:
    teller.script([fail(401, "non_autorizzato")], [say(200, {"ok": False})], [say(200, reply(1))])
    assert [outcome.code for outcome in client.run(NOW, NOW)] == ["non_autorizzato", "risposta_estranea"]
    assert list(client.temporary.iterdir()) == []
    assert client.value(NOW) == reply(1)
