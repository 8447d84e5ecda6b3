"""How well the knowledge base finds what is asked for: documents, questions, and the figures of each embedder."""
