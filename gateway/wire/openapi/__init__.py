"""What the wire's structs say, told as OpenAPI: names, types and errors come from the code, the sentences are here."""
