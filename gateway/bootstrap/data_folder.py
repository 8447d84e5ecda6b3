"""The data folder: made at the first use, with the secret and the name of this installation, each made once for ever."""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from gateway.settings import MINIMUM_SECRET_BYTES

SECRET_FILE = "secret"  # noqa: S105 - a file's name
NODE_FILE = "node"
LOCK_FILE = "start.lock"
OWNER_ONLY = 0o600


class StartError(Exception):
    """Why the gateway, or a command, cannot start: one line for the operator."""


def make_folder(folder: Path) -> None:
    """Make the data folder.

    Raises:
        StartError: It cannot be made or written.

    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"PEPPER_DATA: the folder {folder} can't be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StartError(f"PEPPER_DATA: the folder {folder} can't be written")


def generated_secret(folder: Path) -> bytes:
    """The secret of a data folder, made at its first use and readable by its owner alone."""
    text = _once(folder / SECRET_FILE, secrets.token_urlsafe(MINIMUM_SECRET_BYTES * 2))
    if len(text) < MINIMUM_SECRET_BYTES:
        raise StartError(f"PEPPER_DATA: {folder / SECRET_FILE} is damaged: restore it, or set PEPPER_SECRET")
    return text.encode()


def data_id(folder: Path) -> str:
    """The name of a data folder, made at its first use."""
    return _once(folder / NODE_FILE, secrets.token_hex(8))


def _once(path: Path, fresh: str) -> str:
    """A file's text; if there is none yet it is `fresh`, whoever of several processes is first."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        if not path.exists():
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
            with os.fdopen(descriptor, "w") as file:
                file.write(fresh)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was first
                os.link(temporary, path)
            temporary.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise StartError(f"PEPPER_DATA: {path} can't be used: {error.strerror}") from None


class OneAtATime:
    """A lock between processes: two first starts at once make one demo project."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
