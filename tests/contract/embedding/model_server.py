"""A local server that speaks the protocols of Ollama and of OpenAI, and can misbehave on request."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

DIMENSIONS = 8
MODEL = "toy-model"
KEY = "sk-right"
OLLAMA_CONTEXT = 2048


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        return self.body["input"]


class Answer(NamedTuple):
    status: int
    body: object = None
    headers: dict[str, str] = {}


Misbehaviour = Callable[["ModelServer", Request, BaseHTTPRequestHandler], Answer | None]


def embedding(text: str) -> list[float]:
    """What the server's model makes of a text: any direction, not of unit length."""
    return [byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()[:DIMENSIONS]]


class ModelServer:
    """``misbehave`` makes the next requests go wrong, one each; ``stopping`` ends those that hang."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.stopping = Event()
        self.unbearable = "unbearable"  # a text with this word makes the model answer NaN, as bge-m3 does on some
        self.forbidden = "forbidden"  # one with this is refused
        self._misbehaviours: deque[Misbehaviour] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def misbehave(self, *misbehaviours: Misbehaviour) -> None:
        self._misbehaviours.extend(misbehaviours)

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: Request, handler: BaseHTTPRequestHandler) -> Answer | None:
        """None when a misbehaviour has answered by itself."""
        self.requests.append(request)
        if self._misbehaviours:
            return self._misbehaviours.popleft()(self, request, handler)
        match request.path:
            case "/api/embed":
                return self._ollama(request)
            case "/v1/embeddings":
                return self._openai(request)
            case _:
                return Answer(404, {"error": "no such path"})

    def _ollama(self, request: Request) -> Answer:
        if request.body["model"] != MODEL:
            return Answer(404, {"error": f'model "{request.body["model"]}" not found, try pulling it first'})
        for text in request.texts:
            if self.forbidden in text:
                return Answer(400, {"error": "the input is forbidden"})
            if len(text.split()) > OLLAMA_CONTEXT and request.body.get("truncate") is False:
                return Answer(400, {"error": "the input length exceeds the context length"})
            if self.unbearable in text:
                return Answer(500, {"error": "failed to encode response: json: unsupported value: NaN"})
        return Answer(200, {"model": MODEL, "embeddings": [embedding(text) for text in request.texts]})

    def _openai(self, request: Request) -> Answer:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Answer(401, {"error": {"message": f"Incorrect API key: {request.headers.get('authorization')}"}})
        if any(self.forbidden in text for text in request.texts):
            return Answer(400, {"error": {"message": "the input is forbidden", "type": "invalid_request_error"}})
        assert request.body["encoding_format"] == "float"
        size = request.body.get("dimensions", DIMENSIONS)
        items = [
            {"object": "embedding", "index": index, "embedding": (embedding(text) * size)[:size]}
            for index, text in enumerate(request.texts)
        ]
        return Answer(200, {"object": "list", "data": items[::-1], "model": request.body["model"]})


class _Server(ThreadingHTTPServer):
    owner: ModelServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.owner.answer(Request(self.path, headers, json.loads(content)), self)
        if answer is None:
            self.close_connection = True
            return
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass
