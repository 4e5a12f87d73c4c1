"""A local server that speaks the chat protocols of Ollama, OpenAI and Bedrock, and says what a test wants said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple
from urllib.parse import unquote

MODEL = "toy-model:1"
KEY = "sk-right"


class Asked(NamedTuple):
    """What the server was asked, whatever the protocol."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    system: str
    user: str

    @property
    def check(self) -> str:
        """The word that the answer is to repeat."""
        return re.findall(r'"check": "([0-9a-f]+)"', self.system)[0]


Say = Callable[[Asked], str]


def verdict(label: str = "phishing", *documents: str, says: str = "The address is not theirs.", **changes: Any) -> Say:
    """A well-behaved model's answer."""

    def say(asked: Asked) -> str:
        reasons = [{"says": says, "documents": list(documents)}]
        answer = {"check": asked.check, "verdict": label, "confidence": 0.9, "reasons": reasons}
        return json.dumps(answer | changes)

    return say


class ChatServer:
    """``say`` is the model; ``status`` and ``raw`` replace the whole answer; ``hang`` lets it come never."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.say: Say = verdict()
        self.status = 200
        self.raw: bytes | None = None
        self.hang = False
        self.stopping = Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/api/chat":
            return self._ollama(path, headers, body)
        if path == "/v1/chat/completions":
            return self._openai(path, headers, body)
        if unquote(path) == f"/model/{MODEL}/converse":
            return self._bedrock(path, headers, body)
        return 404, {"error": "no such path"}

    def _said(self, asked: Asked) -> str:
        self.asked.append(asked)
        if self.hang:
            self.stopping.wait(30)
        return self.say(asked)

    def _ollama(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        if body["model"] != MODEL:
            return 404, {"error": f'model "{body["model"]}" not found, try pulling it first'}
        assert body["stream"] is False, "else the answer comes in lines"
        assert body["format"]["type"] == "object"
        text = self._said(Asked(path, headers, body, *_system_and_user(body["messages"])))
        message = {"role": "assistant", "content": text}
        return 200, {"model": MODEL, "message": message, "done_reason": "stop", "done": True}

    def _openai(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        if headers.get("authorization") != f"Bearer {KEY}":
            return 401, {"error": {"message": "Incorrect API key"}}
        assert body["response_format"] == {"type": "json_object"}
        text = self._said(Asked(path, headers, body, *_system_and_user(body["messages"])))
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return 200, {"object": "chat.completion", "model": MODEL, "choices": [choice]}

    def _bedrock(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        assert headers["authorization"].startswith("AWS4-HMAC-SHA256 ")
        [message] = body["messages"]
        text = self._said(Asked(path, headers, body, body["system"][0]["text"], message["content"][0]["text"]))
        output = {"message": {"role": "assistant", "content": [{"text": text}]}}
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        return 200, {"output": output, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}


def _system_and_user(messages: list[dict[str, str]]) -> tuple[str, str]:
    [system, user] = messages
    assert (system["role"], user["role"]) == ("system", "user")
    return system["content"], user["content"]


class _Server(ThreadingHTTPServer):
    owner: ChatServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        owner = self.server.owner
        content = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, body = owner.answer(self.path, headers, json.loads(content))
        answer = owner.raw if owner.raw is not None else json.dumps(body).encode()
        self.send_response(owner.status if status == 200 else status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass
