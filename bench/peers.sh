#!/usr/bin/env bash
# Installs what the benchmarks compare with, each in a virtual environment of its own outside the checkout:
#   bench/peers.sh [FOLDER]        default: $BENCH_PEERS, else ~/.cache/warmroute/peers; about 0.4 GB
# nginx and wrk come from the system's packages (Debian: apt-get install nginx-light wrk).
set -euo pipefail
FOLDER=${1:-${BENCH_PEERS:-$HOME/.cache/warmroute/peers}}
PYTHON=${PYTHON:-python3}
mkdir -p "$FOLDER"
for peer in sglang-router==0.3.2 smg==1.13.0 vllm-router==0.1.17; do
  venv=$FOLDER/${peer%%==*}
  [ -x "$venv/bin/python" ] || "$PYTHON" -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check "$peer"
  echo "$peer in $venv"
done
for tool in nginx wrk; do
  command -v "$tool" >/dev/null || [ -x "/usr/sbin/$tool" ] || echo "missing: $tool (bench.proxy.run needs it)" >&2
done
