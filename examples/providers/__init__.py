"""Two providers to run and to learn from: a company's directory, and its wiki."""
