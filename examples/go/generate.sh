#!/usr/bin/env bash
# Writes the Go code of proto/ into FOLDER (v1/*.pb.go) with the ordinary Go plugins. Needs go, and a Python with
# grpcio-tools for protoc.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
plugins=${GO_PLUGINS:-$root/.venv/go}
GOBIN=$plugins go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$plugins go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
cd "$root/proto"
PATH=$plugins:$PATH "${PYTHON:-python3}" -m grpc_tools.protoc -I . \
  --go_out="$folder" --go_opt=module=example.com/warmroute \
  --go-grpc_out="$folder" --go-grpc_opt=module=example.com/warmroute \
  warmroute/v1/router.proto warmroute/v1/fleet.proto
