"""The folder where one stack keeps all that is its own: ``KNOWLEDGE_HOME``.

api-key          the internal key, made once
postgres/        the database, with postgres.json and postgres.lock beside it
logs/            what each process said
functions.json   environment of the functions, for the local Lambda service
spot.yaml        the providers and their schedules, made from infra/spot.yaml
stack.json       while a stack runs: where it listens, and its processes
lock             held by the stack that runs
"""

from __future__ import annotations

import secrets
from pathlib import Path

from pydantic import BaseModel, ValidationError

from local.files import write_private
from local.locks import FileLock
from local.processes import ProcessMark
from spot_sdk.errors import InvalidInput, NotFound


class StackState(BaseModel):
    """What ``stack.json`` says of the stack that runs."""

    pid: int
    """The supervisor's: SIGTERM stops the stack."""
    port: int
    url: str
    knowledge_url: str
    aws_endpoint_url: str
    processes: list[ProcessMark]
    """Its children, in the order of their start."""


class Home:
    """The files of one stack. Nothing is read or made before a method is called."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = FileLock(path / "lock", guards=str(path))

    @property
    def api_key_path(self) -> Path:
        return self.path / "api-key"

    @property
    def data_dir(self) -> Path:
        return self.path / "postgres"

    @property
    def functions_path(self) -> Path:
        return self.path / "functions.json"

    @property
    def spot_path(self) -> Path:
        return self.path / "spot.yaml"

    @property
    def state_path(self) -> Path:
        return self.path / "stack.json"

    def log_path(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def make(self) -> None:
        """Make the folder, for its owner alone; one that is there keeps its mode. Raises InvalidInput."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.path / "logs").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"KNOWLEDGE_HOME={self.path} cannot be used: {error.strerror}") from error

    def api_key(self) -> str:
        """The internal key. Raises NotFound before the first start."""
        try:
            key = self.api_key_path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            raise NotFound(f"there is no key in {self.path} yet; `make up` makes it") from None
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self.api_key_path} cannot be read: {error}") from error
        if not key:
            raise InvalidInput(f"{self.api_key_path} is empty; write a key into it, or remove it to get a new one")
        return key

    def ensure_api_key(self) -> str:
        """The internal key, made now (43 URL-safe characters) if there is none. Call it while holding the lock."""
        try:
            return self.api_key()
        except NotFound:
            key = secrets.token_urlsafe(32)
            write_private(self.api_key_path, f"{key}\n")
            return key

    def write_state(self, state: StackState) -> None:
        write_private(self.state_path, state.model_dump_json(indent=2) + "\n")

    def clear_state(self) -> None:
        self.state_path.unlink(missing_ok=True)

    def running_stack(self) -> StackState | None:
        """The stack that runs in this folder; None when there is none, or it has not come up yet."""
        return self._read_state() if self.lock.is_held() else None

    def stop_leftovers(self) -> None:
        """Stop processes of a stack that was killed and could not stop them. Call it while holding the lock."""
        state = self._read_state()
        for process in reversed(state.processes if state else []):
            process.stop()
        self.clear_state()

    def _read_state(self) -> StackState | None:
        """What ``stack.json`` says; a killed stack leaves it behind."""
        try:
            return StackState.model_validate_json(self.state_path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
