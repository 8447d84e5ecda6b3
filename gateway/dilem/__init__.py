"""Dilem, the second front door: a decision assistant for agents, on the same chain as the partners' contract."""
