#!/usr/bin/env bash
# clang-tidy over the sources that changed, or over all.
#   tidy.sh BUILD_FOLDER JOBS [--all]
# Changed means: different from $BASE, by default the commit where this branch left main (on main: the commit before).
# A changed header stands for the source file of the same name.
set -euo pipefail
build=$1 jobs=$2 all=${3:-}

base() {
  local fork
  fork=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || true)
  if [ -z "$fork" ] || [ "$fork" = "$(git rev-parse HEAD)" ]; then
    fork=$(git rev-parse --verify --quiet HEAD~1 || git hash-object -t tree /dev/null)
  fi
  echo "$fork"
}

if [ -n "$all" ]; then
  candidates=$(git ls-files '*.cc')
else
  candidates=$(git diff --name-only --diff-filter=d "${BASE:-$(base)}" -- '*.cc' '*.h' | sed 's/\.h$/.cc/' | sort -u)
fi
# Only what this build compiles; the others have no flags to check them with.
compiled=$(sed -nE "s|^ *\"file\": \"$PWD/(.*)\".*|\1|p" "$build/compile_commands.json" | sort -u)
sources=$(comm -12 <(sort -u <<<"$candidates") - <<<"$compiled")
if [ -z "$sources" ]; then
  echo 'clang-tidy: nothing to check'
  exit 0
fi
echo "clang-tidy: $(wc -l <<<"$sources") files"
# Precompiled headers are gcc's; clang reads the text that they were made from.
xargs -P "$jobs" -n 1 nice clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option <<<"$sources" 2> \
  >(grep -v ' warnings\? \(generated\|treated as errors\)' >&2)
