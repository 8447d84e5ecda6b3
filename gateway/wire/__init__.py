"""The Italian contract, and only here: requests are decoded into the domain, the domain is encoded into replies."""
