"""Tells the Knowledge Store what the handbook says, from a tree of Markdown files or a git checkout of one."""
