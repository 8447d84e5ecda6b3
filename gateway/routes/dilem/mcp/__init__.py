"""Dilem over the Model Context Protocol: seven tools for people's agents, at one address."""
