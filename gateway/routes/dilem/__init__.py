"""The agents' front door: Dilem over HTTP."""
