"""One thing that a check-up found."""

from __future__ import annotations

from pydantic import BaseModel


class Finding(BaseModel):
    """One thing that is due: ``subject`` for scripts, ``message`` for people, ``command`` - or what else - to do."""

    subject: str
    message: str
    command: str
