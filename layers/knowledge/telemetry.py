"""Structured logs, one line of JSON a call, that tell what happened without telling what was said."""

from __future__ import annotations

from aws_lambda_powertools import Logger

logger = Logger(service="knowledge")
