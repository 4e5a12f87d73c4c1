"""How commands find the store: by the stack that is named, by the address given, else the local stack that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cli.deployed import named_stack, read_stack
from local.home import Home, StackState
from local.settings import LocalSettings
from spot_sdk.client import KnowledgeClient
from spot_sdk.errors import Unavailable
from spot_sdk.operators import OperatorClient
from spot_sdk.settings import api_key_from_environment

T = TypeVar("T")


def call(url: str | None, work: Callable[[KnowledgeClient], Awaitable[T]]) -> T:
    """What ``work`` returns, done with a client of the store at ``url``, or of the local stack; of the one that
    ``--stack`` names before both.

    Raises Unavailable when there is none of them, and what ``read_stack`` raises.
    """

    async def session() -> T:
        async with open_client(url) as client:
            return await work(client)

    return asyncio.run(session())


def open_client(url: str | None) -> KnowledgeClient:
    """A client of the store at ``url`` with the environment's key, or of a stack with that stack's own."""
    return KnowledgeClient(*store_address(url))


def store_address(url: str | None) -> tuple[str, str | None]:
    """Base address and key of the store that a command means, as ``call`` finds it."""
    name = named_stack.get()
    if name is not None:
        deployed = read_stack(name)
        return deployed.knowledge_url, deployed.internal_key()
    if url is None:
        home, stack = running_stack(instead="--url")
        return stack.knowledge_url, home.api_key()
    home = Home(LocalSettings.from_environment().home)
    stack = home.running_stack()
    if stack is not None and stack.knowledge_url == url.rstrip("/"):
        return url, api_key_from_environment() or home.api_key()
    return url, api_key_from_environment()


def operate(url: str | None, work: Callable[[OperatorClient], Awaitable[T]]) -> T:
    """Like ``call``, with an operators' client."""

    async def session() -> T:
        async with OperatorClient(*store_address(url)) as client:
            return await work(client)

    return asyncio.run(session())


def running_stack(instead: str | None = None) -> tuple[Home, StackState]:
    """The local stack that runs. Raises Unavailable, naming the option to use ``instead``, when none does."""
    home = Home(LocalSettings.from_environment().home)
    stack = home.running_stack()
    if stack is None:
        way_out = f", or name a store with {instead}" if instead else ""
        raise Unavailable(f"no local stack runs in {home.path}. Start one with `knowledge up`{way_out}.")
    return home, stack
