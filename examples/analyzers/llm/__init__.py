"""Has a language model judge a mail, with employees, policies and pages of the store beside it."""
