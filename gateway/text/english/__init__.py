"""Written English -> words, one kind of token a file. Each `expand` is one pass over the text."""
