"""One module a page: what it asks of the store, and the template that shows it."""
