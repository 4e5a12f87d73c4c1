"""``python -m examples.providers.wiki`` serves the wiki on loopback."""

from examples.providers.serve import serve
from examples.providers.wiki.app import provider

serve("wiki", provider, port=8802)
