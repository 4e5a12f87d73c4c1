"""``python -m examples.analyzers.llm`` serves the analyzer on loopback."""

from examples.analyzers.llm.app import analyzer
from examples.analyzers.serve import serve

serve("llm", analyzer, port=8812)
