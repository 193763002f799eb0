"""Prometheus metrics: one table of rows over what the router, the proxy and the fleet count."""

from warmroute.metrics.registry import CONTENT_TYPE, Metrics
from warmroute.metrics.row import ModelRung, Row, Snapshot
from warmroute.metrics.table import ROWS, SECTIONS

__all__ = ["CONTENT_TYPE", "ROWS", "SECTIONS", "Metrics", "ModelRung", "Row", "Snapshot"]
