"""The one module that imports the compiled part; everything else of the package takes it from here."""

from warmroute._core import __version__

__all__ = ["__version__"]
