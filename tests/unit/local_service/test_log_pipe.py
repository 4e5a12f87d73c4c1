"""Lines from a worker's pipe."""

from __future__ import annotations

import asyncio
import io
import os

import pytest

from local.lambda_service.logs import LogLine, LogPipe, LogSink

pytestmark = pytest.mark.anyio


async def lines_of(*chunks: bytes) -> list[str]:
    lines: list[str] = []
    pipe = LogPipe(lines.append)
    for chunk in chunks:
        os.write(pipe.write_fd, chunk)
        pipe.drain()
    pipe.close_write_end()
    pipe.drain()
    pipe.close()
    return lines


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"o", b"ne\nt", b"wo"], ["one", "two"]),
        ([b"\n\n"], []),
        ([b"a\r\nb\rc\n"], ["a", "b\rc"]),
        (["\u00e9\n".encode()[:1], "\u00e9\n".encode()[1:]], ["é"]),
        ([b"\xff\n"], ["\ufffd"]),
        ([], []),
    ],
)
async def test_lines(chunks: list[bytes], lines: list[str]) -> None:
    assert await lines_of(*chunks) == lines


async def test_a_line_without_end_is_cut_where_cloudwatch_cuts_it() -> None:
    lines: list[str] = []
    pipe = LogPipe(lines.append)
    for _ in range(9):
        os.write(pipe.write_fd, b"x" * 32 * 1024)
        pipe.drain()
    assert [len(line) for line in lines] == [256 * 1024]
    pipe.close_write_end()
    pipe.close()
    assert [len(line) for line in lines] == [256 * 1024, 32 * 1024]


async def test_lines_arrive_without_being_asked_for() -> None:
    arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    pipe = LogPipe(arrived.set_result)
    os.write(pipe.write_fd, b"hello\n")
    assert await asyncio.wait_for(arrived, 5) == "hello"
    pipe.close_write_end()
    pipe.close()


def test_the_sink_writes_observes_and_unfolds_tracebacks() -> None:
    stream = io.StringIO()
    seen: list[LogLine] = []
    sink = LogSink(stream, (seen.append,))
    line = LogLine("Query", "id-1", "[ERROR] E\rTraceback\r\u00a0\u00a0File")
    sink.write(line)
    sink.note("hello")
    assert stream.getvalue() == ("Query id-1 [ERROR] E\n    Traceback\n      File\nlambda-service - hello\n")
    assert seen == [line, LogLine("lambda-service", "", "hello")]
