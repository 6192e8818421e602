"""How batches travel: messages, their bytes, sockets, keys and the memory they lie in."""
