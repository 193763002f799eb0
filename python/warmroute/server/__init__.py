"""The server: router, data plane, fleet and control paths in one process."""
