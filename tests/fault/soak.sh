#!/usr/bin/env bash
# Repeats the tests that kill, stop and cut at random moments until the time is over; stops at the first failure.
#   soak.sh BUILD_FOLDER MINUTES
# Each round has another seed, which is printed: DDP_TEST_SEED=… repeats it.
set -euo pipefail
build=$1 minutes=$2
deadline=$((SECONDS + minutes * 60)) round=0
while [ $SECONDS -lt $deadline ]; do
  round=$((round + 1))
  export DDP_TEST_SEED=$RANDOM DDP_TEST_KILLS=${DDP_TEST_KILLS:-20}
  log=$build/soak.log
  if ! { ctest --test-dir "$build" -L '^fault$' --no-tests=error --output-on-failure &&
    nice "$build/bin/integration_test" --gtest_filter='FaultTest.*' --gtest_brief=1; } >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "soak: round $round failed with DDP_TEST_SEED=$DDP_TEST_SEED, see $log"
    exit 1
  fi
  echo "soak: round $round held (seed $DDP_TEST_SEED, $SECONDS s)"
done
