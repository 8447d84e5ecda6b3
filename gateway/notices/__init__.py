"""Notices on their way out: signed, and sent to public addresses alone."""
