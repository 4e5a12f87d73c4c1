"""A module that reaches the functions through their layer."""

ANSWER = "from the layer"
