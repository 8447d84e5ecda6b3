"""A route speaks a language: it reads a request, hands it to the core, and tells the reply."""
