"""How a text is named where it must not stand: by a hash that only who has the key can make."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

HashText = Callable[[str], str]
"""The name of a text in logs and in the list of slow queries: the same text, the same name."""

_PURPOSE = b"spot-knowledge: names of texts, 1"


def text_hasher(secret: str) -> HashText:
    """Names made with a key that is derived from ``secret``, 16 hexadecimal digits long.

    A plain hash would let anybody who reads a log try out what was asked: the texts are mails that others have, too.
    """
    key = hmac.digest(secret.encode("utf-8", "surrogatepass"), _PURPOSE, hashlib.sha256)
    return lambda text: hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:16]
