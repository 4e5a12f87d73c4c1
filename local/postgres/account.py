"""Under which account the server runs: PostgreSQL refuses root."""

from __future__ import annotations

import grp
import os
import pwd
import sys
from itertools import count
from pathlib import Path

from local.processes import Account
from spot_sdk.errors import StoreUnavailable

_FIRST_UID = 61000
"""Above the ordinary users and below what systemd hands out (61184 on)."""


def server_account(data_dir: Path) -> Account | None:
    """The account that the server of ``data_dir`` runs under: None for an ordinary user, who runs it as themselves.

    As root it is the owner of the data. New data (and data that root owns, as after a restore) goes to a number that
    no user and no group has: nothing else on the machine runs under it, and no user is added for it.

    Raises StoreUnavailable when the data belongs to somebody else, or root has no way to run it.
    """
    owner = data_dir.stat().st_uid if data_dir.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise StoreUnavailable(
                f"the data folder {data_dir} belongs to user {owner}, and this is user {os.geteuid()}. Start the stack "
                "as the user who made the data, or set KNOWLEDGE_HOME to another folder."
            )
        return None
    if sys.platform != "linux":
        raise StoreUnavailable("PostgreSQL does not run as root; start the stack as an ordinary user")
    if owner:
        return Account(owner, data_dir.stat().st_gid)
    return _unused_account()


def cluster_maker() -> Account | None:
    """The account under which root makes a new cluster: ``initdb`` wants one that has a name."""
    if os.geteuid() != 0:
        return None
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise StoreUnavailable(
            "PostgreSQL does not run as root, and there is no user 'nobody' to set it up; start as an ordinary user"
        ) from None
    return Account(nobody.pw_uid, nobody.pw_gid)


def has_name(uid: int) -> bool:
    """Whether /etc/passwd, or what stands in for it, knows ``uid``."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def hand_over(folder: Path, account: Account) -> None:
    """Make ``account`` the owner of ``folder`` and all that is in it; links are not followed."""
    for _, _, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        for name in files:
            os.chown(name, account.uid, account.gid, dir_fd=descriptor, follow_symlinks=False)
        os.fchown(descriptor, account.uid, account.gid)


def _unused_account() -> Account:
    for number in count(_FIRST_UID):
        try:
            grp.getgrgid(number)
        except KeyError:
            if not has_name(number):
                return Account(number, number)
    raise AssertionError("unreachable: count() has no end")
