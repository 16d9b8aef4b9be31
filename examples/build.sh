#!/bin/sh
# build.sh QCC [OUT-DIRECTORY] - runs build.lua from the project's root.
set -e
qcc=$(realpath "$1")
out=$(realpath "${2:-.}")
cd "$(dirname "$0")/.."
exec "$qcc" script examples/build.lua "$out"
