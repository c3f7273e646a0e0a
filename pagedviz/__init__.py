"""pagedviz: step a real paged KV cache one token at a time, forwards and backwards."""

__version__ = "0.1.0"
