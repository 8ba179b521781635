#!/bin/sh
# closure.sh TREE PROGRAM...: copies into the folder TREE, at the same paths, every library that the programs load, and the
# loader itself. Fails when one is missing. For images that have no system of their own.
set -eu
tree=$1
shift
libraries=$(ldd "$@")
case $libraries in
  *'not found'*) printf '%s\n' "$libraries" | grep 'not found' >&2; exit 1 ;;
esac
printf '%s\n' "$libraries" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/lib64\/ld-[^ ]*\) .*/\1/p' | sort -u |
  while read -r path; do
    case $path in "$tree"/*) continue ;; esac
    mkdir -p "$tree$(dirname "$path")"
    cp -L "$path" "$tree$path"
  done
mkdir -p "$tree/etc" "$tree/tmp"
chmod 1777 "$tree/tmp"
