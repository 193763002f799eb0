"""Where workers are known from: sources list them, and one reconciler makes the fleet of what they list."""

from warmroute.fleet.discovery.listing import PRECEDENCE, Listing, Publish, Source
from warmroute.fleet.discovery.reconcile import Reconciler
from warmroute.fleet.discovery.standing import Standing

__all__ = ["PRECEDENCE", "Listing", "Publish", "Reconciler", "Source", "Standing"]
