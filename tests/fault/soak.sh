#!/usr/bin/env bash
# Repeats the tests that kill, stop and cut at random moments until the time is over; stops at the first failure.
#   soak.sh BUILD_FOLDER MINUTES
# Before that, once: 200 jobs' lives each under failing requests and under killed leaders, and 10,000 jobs that come and
# go (CHAOS=0 leaves this out; it takes about an hour and a half on 2 cores).
# Each round has another seed, which is printed: DDP_TEST_SEED=… repeats it.
set -euo pipefail
build=$1 minutes=$2
log=$build/soak.log

report() {
  tail -n 60 "$log"
  echo "soak: $1 failed with DDP_TEST_SEED=$DDP_TEST_SEED, see $log"
  exit 1
}

if [ "${CHAOS:-1}" != 0 ]; then
  export DDP_TEST_SEED=$RANDOM
  DDP_CHAOS_STORIES=200 DDP_CHAOS_LEADERS=200 DDP_CHAOS_CHURN=10000 \
    nice "$build/bin/chaos_test" --gtest_brief=1 >"$log" 2>&1 || report chaos
  grep -E 'MiB|stories' "$log"
  echo "soak: chaos held (seed $DDP_TEST_SEED, $SECONDS s)"
fi

# A save is killed at a hundred moments, where the tests of every change kill twenty.
if [ -x "$build/bin/runtime_checkpoint_test" ]; then
  export DDP_TEST_SEED=$RANDOM
  DDP_TEST_SAVE_KILLS=100 nice "$build/bin/runtime_checkpoint_test" --gtest_filter='*KilledAtAnyMoment*' --gtest_brief=1 \
    >"$log" 2>&1 || report saves
  echo "soak: 100 killed saves held (seed $DDP_TEST_SEED)"
fi

deadline=$((SECONDS + minutes * 60)) round=0
while [ $SECONDS -lt $deadline ]; do
  round=$((round + 1))
  export DDP_TEST_SEED=$RANDOM
  if ! { ctest --test-dir "$build" -L '^fault$' --no-tests=error --output-on-failure &&
    nice "$build/bin/integration_test" --gtest_filter='FaultTest.*' --gtest_brief=1; } >"$log" 2>&1; then
    report "round $round"
  fi
  echo "soak: round $round held (seed $DDP_TEST_SEED, $SECONDS s)"
done
