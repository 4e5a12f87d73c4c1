"""Two analyzers: ``rules`` compares a mail with what the store knows, ``llm`` has a language model judge it."""
