"""The operators' file of a local stack: the shipped one, with the example providers where they really listen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from knowledge.sync.config import ConfigError, SpotConfig, load
from local.files import write_private
from local.settings import CHECKOUT
from spot_sdk.errors import InvalidInput

SHIPPED = CHECKOUT / "infra" / "spot.yaml"
EXAMPLE_PROVIDERS = ("employee-dir", "wiki")

_HEADER = "# Made from infra/spot.yaml at each start of the local stack, which is the file to edit.\n"


def write_spot_file(target: Path, urls: Mapping[str, str], *, source: Path = SHIPPED) -> None:
    """Write ``source`` to ``target`` with the example providers (by id) at ``urls``, and those without a url disabled.

    Everything else stays as it is. Raises InvalidInput, with lines and fields, when ``source`` cannot be used.
    """
    try:
        config = load(source)
    except ConfigError as error:
        raise InvalidInput(str(error)) from error
    plain = _local(config, urls).model_dump(mode="json", exclude_unset=True)
    write_private(target, _HEADER + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def _local(config: SpotConfig, urls: Mapping[str, str]) -> SpotConfig:
    providers = {
        provider_id: provider.model_copy(
            update={"url": urls[provider_id]}
            if provider_id in urls
            else {"enabled": provider.enabled and provider_id not in EXAMPLE_PROVIDERS}
        )
        for provider_id, provider in config.providers.items()
    }
    hosts = {urlsplit(url).hostname or "" for url in urls.values()}
    return config.model_copy(
        update={
            "plugins": config.plugins.model_copy(update={"context_providers": providers}),
            "sync": config.sync.model_copy(
                update={"allow_http_hosts": sorted({*config.sync.allow_http_hosts, *hosts})}
            ),
        }
    )
