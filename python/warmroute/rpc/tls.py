"""TLS: the server's certificate, and which clients' are taken. Files are read again when they change."""

from pathlib import Path

import grpc

from warmroute.config import GrpcOptions
from warmroute.errors import ConfigError
from warmroute.logs import get

log = get("grpc")


class _Files:
    """The certificate's files, and when they were changed."""

    def __init__(self, options: GrpcOptions) -> None:
        self._paths = [
            (name, Path(path))
            for name, path in (
                ("grpc_tls_key", options.grpc_tls_key),
                ("grpc_tls_cert", options.grpc_tls_cert),
                ("grpc_tls_client_ca", options.grpc_tls_client_ca),
            )
            if path is not None
        ]
        self._changed: list[int] = []

    def read(self) -> grpc.ServerCertificateConfiguration:
        self._changed = self._stamps()
        read = {name: _read(name, path) for name, path in self._paths}
        return grpc.ssl_server_certificate_configuration(
            [(read["grpc_tls_key"], read["grpc_tls_cert"])], root_certificates=read.get("grpc_tls_client_ca")
        )

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Asked for at each handshake; a certificate that cannot be read leaves the one before."""
        try:
            return self.read() if self._stamps() != self._changed else None
        except (ConfigError, OSError) as error:
            log.once("tls", "the certificate cannot be read again: the one before is used", error=error)
            return None

    def _stamps(self) -> list[int]:
        return [path.stat().st_mtime_ns for _, path in self._paths]


def credentials(options: GrpcOptions) -> grpc.ServerCredentials | None:
    """The server's credentials; `None` where there are none. Raises `ConfigError` for what cannot be used."""
    cert, key, clients = options.grpc_tls_cert, options.grpc_tls_key, options.grpc_tls_client_ca
    if cert is None and key is None and clients is None:
        return None
    if cert is None or key is None:
        missing = "grpc_tls_cert" if cert is None else "grpc_tls_key"
        raise ConfigError(f"grpc.{missing}", None, "a file: a certificate and its key go together")
    files = _Files(options)
    try:
        first = files.read()
    except OSError as error:
        raise ConfigError("grpc.grpc_tls_cert", cert, f"files that can be read ({error})") from None
    return grpc.dynamic_ssl_server_credentials(
        first,
        files.changed,  # type: ignore[arg-type] # None leaves the certificate before, which the types do not know
        require_client_authentication=clients is not None,
    )


def _read(name: str, path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"grpc.{name}", str(path), f"a file that can be read ({error.strerror})") from None
    if b"-----BEGIN " not in data:
        raise ConfigError(f"grpc.{name}", str(path), "a file in PEM format")
    return data
