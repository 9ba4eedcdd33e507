#!/bin/sh
# stepcast forecasts on machines that have neither MPI nor BLAS nor CUDA, and tools/run builds no more
# than that for a first forecast: nothing that runs on hardware may come back among its dependencies.
set -eu
if [ -s "$1" ]; then
  echo "//src/cli:stepcast-forecast depends on what belongs to stepcast-hardware:" >&2
  cat "$1" >&2
  exit 1
fi
