"""Send each LLM request to the vLLM worker whose KV cache is already warm for its prompt."""
