"""The sentence that a request goes through: authenticate, isolate, plan, admit, prepare, provide, record."""
