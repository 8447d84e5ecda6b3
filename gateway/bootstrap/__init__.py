"""The only place that picks implementations: from settings to stores (`stores.py`) and to a core (`serving.py`)."""
