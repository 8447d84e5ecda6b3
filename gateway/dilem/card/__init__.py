"""The result card: one recommendation as a picture to share, drawn from plain text and packaged fonts alone."""
