"""SPOT's SDK for the Knowledge Store: everything that a provider or an analyzer needs."""
