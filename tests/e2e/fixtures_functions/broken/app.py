"""Cannot be imported, for a module that it needs cannot."""

import helper  # noqa: F401


def handler(event: object, context: object) -> None: ...
