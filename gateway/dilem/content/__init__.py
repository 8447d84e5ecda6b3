"""What Dilem says of itself: its documents for people and agents, made from the typed contract and one catalogue of
words per language.
"""
