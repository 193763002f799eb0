#!/usr/bin/env bash
# Runs fuzz targets for a bounded time: `run.sh [TARGET...]`, each for FUZZ_SECONDS (60; `events` for ten million
# inputs) or FUZZ_RUNS inputs.
#
# Needs a nightly toolchain and a C++ compiler, and no cargo-fuzz: the flags are those that it gives. What is found
# is kept in `artifacts/`; `FUZZ_INPUT=FILE run.sh TARGET` repeats it.
set -euo pipefail
cd "$(dirname "$0")"
host=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-target}
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Zsanitizer=address -Ccodegen-units=4"

[ $# -gt 0 ] || set -- body render template cached mirror events
RUSTFLAGS=$flags cargo +nightly build --release --target "$host" "${@/#/--bin=}"
rustc --edition 2024 -A warnings -o "$target_dir/seeds" src/bin/seeds.rs
"$target_dir/seeds" corpus
for name in "$@"; do
  mkdir -p "artifacts/$name" "corpus/$name"
  dictionary=corpus/dictionary longest=65536
  bound=(-max_total_time="${FUZZ_SECONDS:-60}")
  case $name in events | mirror) dictionary=corpus/dictionary-events longest=4096 ;; esac
  [ "$name" != events ] || [ -n "${FUZZ_SECONDS:-}" ] || bound=(-runs=10000000)
  [ -z "${FUZZ_RUNS:-}" ] || bound=(-runs="$FUZZ_RUNS")
  echo "fuzz: $name"
  "$target_dir/$host/release/$name" "${FUZZ_INPUT:-corpus/$name}" \
    -artifact_prefix="artifacts/$name/" -dict="$dictionary" -max_len="$longest" -timeout=20 -rss_limit_mb=4096 \
    "${bound[@]}"
done
