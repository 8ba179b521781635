#!/usr/bin/env bash
# Fuzzes every parser with libFuzzer under the address and undefined-behaviour sanitizers, each for the same time.
#   run.sh MINUTES JOBS           MINUTES in all, JOBS at once
# What was found interesting is kept in $DDP_CACHE/fuzz/, where the next run starts. An input that breaks a parser is
# written to build/fuzz/ and named. DDP_TEST_SEED makes the mutations the same each time.
set -euo pipefail
minutes=$1 jobs=$2 build=build/fuzz
corpus=${DDP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}/fuzz

# fuzzer-no-link: the libraries under test report their coverage too.
[ -f $build/build.ninja ] ||
  CC=clang-16 CXX=clang++-16 cmake --preset asan-ubsan -B $build -DDDP_SANITIZE=address,undefined,fuzzer-no-link \
    --log-level=WARNING -Wno-dev >/dev/null
nice ninja -C $build -j "$jobs" fuzzers

mapfile -t fuzzers < <(find $build/bin -name 'fuzz_*' -type f -executable -printf '%f\n' | sort)
seconds=$((minutes * 60 * jobs / ${#fuzzers[@]}))
echo "${#fuzzers[@]} fuzzers, $seconds s each: ${fuzzers[*]}"
fuzz() {
  local log=$build/$1.log
  mkdir -p "$corpus/$1"
  if ! nice "$build/bin/$1" -max_total_time="$seconds" -seed="${DDP_TEST_SEED:-0}" -rss_limit_mb=4096 -artifact_prefix="$build/$1-" -print_final_stats=1 \
    "$corpus/$1" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "$1 FAILED: see $log"
    return 1
  fi
  echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs held"
}
export -f fuzz
export build corpus seconds
printf '%s\n' "${fuzzers[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz {}'
