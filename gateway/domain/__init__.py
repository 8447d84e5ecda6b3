"""The nouns of the gateway: values without input, output or clocks. Everything else may import them."""
