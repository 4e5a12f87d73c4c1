"""``python -m examples.analyzers.rules`` serves the analyzer on loopback."""

from examples.analyzers.rules.app import analyzer
from examples.analyzers.serve import serve

serve("rules", analyzer, port=8811)
