//! Why a proxy does not start.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;
use warmroute_core::error::ConfigError;

/// A proxy that could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// An option has a value that it does not take.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The host is no address, and no name that has one.
    #[error("cannot listen on {host:?}: {source}")]
    Host {
        /// What was to be listened on.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// The address is taken or not allowed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives no thread or no event queue.
    #[error("cannot start a serving thread: {0}")]
    Thread(#[source] io::Error),
}
