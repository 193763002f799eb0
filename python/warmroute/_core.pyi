"""The compiled part of warmroute."""

__all__ = ["__version__"]

__version__: str
