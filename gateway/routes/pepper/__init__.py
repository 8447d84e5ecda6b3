"""The partners' front door: the Italian contract over HTTP."""
