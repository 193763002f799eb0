"""Simulated workers: the engine model of the compiled part, served over HTTP, with KV events over ZMQ."""
