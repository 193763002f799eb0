"""Helpers of the tests: a scriptable worker, a client that shows bytes, servers as processes."""
