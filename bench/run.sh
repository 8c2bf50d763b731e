#!/usr/bin/env bash
# Measures what this machine can measure without a GPU and renders docs/benchmarks.md. Takes about half an hour on two
# cores; run it on an otherwise idle machine.
#   bench/run.sh BUILD_FOLDER
set -euo pipefail
build=${1:?the build folder, e.g. build/release}
"$build/bench/emulator_bench" --record
"$build/bin/service_bench" all --record bench/results.json
"$build/bin/lane_bench" --record bench/results.json
"$build/bench/lab_bench" --record
"$build/bench/quickstart_bench" --runs "$build/bench-runs" --record
"$build/bench/render_benchmarks"
