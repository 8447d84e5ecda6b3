"""Those who answer model calls, behind the port `Provider`: Claude, OpenAI, and the sandbox that costs nothing."""
