"""The gRPC endpoint, `warmroute.v1`: in `warmroute serve`, or beside a `Router` of one's own."""

from warmroute.rpc.embedded import serve, serve_in_thread
from warmroute.rpc.fleet import OperatorPort
from warmroute.rpc.keys import Keys, Nobody
from warmroute.rpc.server import Server
from warmroute.rpc.upstream import UpstreamOptions

__all__ = ["Keys", "Nobody", "OperatorPort", "Server", "UpstreamOptions", "serve", "serve_in_thread"]
