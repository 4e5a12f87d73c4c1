"""Judges a mail by rules, against what the store knows of those whom it names."""
