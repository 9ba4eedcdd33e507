#!/usr/bin/env bash
# Tests the scripts and scenarios for GPU machines without a GPU: scenarios are forecast, PyTorch's
# models have the parameters that stepcast counts, and scripts skip on a machine without a GPU.
set -uo pipefail

stepcast=$PWD/src/cli/stepcast
here=$PWD/tests/gpu
export STEPCAST_DATA=$PWD
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
failed=0
wrong() {
  echo "$1" >&2
  failed=1
}

for scenario in "$here"/scenarios/*.yaml; do
  "$stepcast" simulate "$scenario" --set "cluster.topology.gpu=h200" \
    --set "cluster.topology.memory=143771 MiB" >"$output/log" 2>&1 ||
    wrong "$scenario: $(cat "$output/log")"
done

bash -n "$here/run" || wrong "tests/gpu/run is no shell script"
# --plan prints the parts with their order and limits, and creates nothing.
plan=$("$here/run" --plan "$output/report" 2>&1) || wrong "tests/gpu/run --plan fails: $plan"
if [ -e "$output/report" ]; then wrong "a plan makes a folder"; fi
order=$(awk '{print " " $4 " "}' <<<"$plan" | paste -sd '')
case $order in
  *" probe "*" kernels_test "*" calibrate "*" validate-accumulation "*" check-gpt2 "*\
" graph-accumulation "*" pytorch-eager "*" calibrate-thorough "*" memcheck "*" pytorch-compiled "*) ;;
  *) wrong "another order than of what is worth most: $order" ;;
esac
awk '$1 != "visit" && !($2 > 0 && $2 <= 600) { exit 1 }' <<<"$plan" ||
  wrong "a part has no limit, or one beyond ten minutes: $plan"
second=$("$here/run" --plan --visit 2 2>&1)
awk '$1 != "visit" && $1 != 2 { exit 1 }' <<<"$second" || wrong "more than visit 2: $second"
for mistake in "--visit 4" "--within soon" "--nothing" "a b"; do
  # shellcheck disable=SC2086
  "$here/run" $mistake >"$output/log" 2>&1
  [ $? = 2 ] || wrong "tests/gpu/run $mistake: $(cat "$output/log")"
done
if ! ls /dev/nvidia[0-9]* /dev/dxg >/dev/null 2>&1 && ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  said=$("$here/run" "$output/report" 2>&1) || wrong "without a GPU tests/gpu/run fails"
  [[ $said == *skipped* && $said == *calibrate* ]] ||
    wrong "without a GPU tests/gpu/run does not say what it would do: $said"
fi

if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  /usr/bin/python3 "$here/pytorch_step.py" --dry-run --models gpt2-124m --stepcast "$stepcast" \
    --output "$output" >"$output/log" 2>&1 || wrong "a dry run: $(cat "$output/log")"
  /usr/bin/python3 "$here/pytorch_step.py" --device cpu --tiny --steps 2 --warmup 1 \
    --stepcast "$stepcast" --output "$output" >"$output/log" 2>&1 ||
    wrong "on a CPU: $(cat "$output/log")"
  grep -q llama-tiny "$output/log" || wrong "no table: $(cat "$output/log")"
else
  echo "pytorch_step.py is not tried: /usr/bin/python3 has no torch"
fi
exit $failed
