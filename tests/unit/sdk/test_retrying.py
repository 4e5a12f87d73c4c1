"""How long a client waits before it asks again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from spot_sdk.retrying import RetryPolicy, parse_retry_after


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("5", 5.0),
        (" 0 ", 0.0),
        ("-3", None),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:30 -0000", 30.0),
        ("Mon, 01 Jan 2020 00:00:00 +99999999999999999999", None),
        ("Mon, 01 Jan 2020 00000000000000000000099:00:00 +0000", None),
        ("9" * 400, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float | None):
    assert parse_retry_after(header, now=datetime(2015, 10, 21, 7, 28, tzinfo=UTC)) == seconds


def test_waits_grow_and_are_spread():
    longest = RetryPolicy(attempts=9, first_wait_s=1, longest_wait_s=5, random=lambda: 1.0)
    assert [longest.wait_s(attempt, None) for attempt in range(1, 10)] == [1, 2, 4, 5, 5, 5, 5, 5, None]
    shortest = RetryPolicy(attempts=9, random=lambda: 0.0)
    assert [shortest.wait_s(attempt, None) for attempt in (1, 5)] == [0, 0]


def test_one_attempt_never_waits():
    assert RetryPolicy(attempts=1).wait_s(1, 0.1) is None
