#!/bin/sh
# The runtime by itself, with a plan that is written by hand: see tests/runtime/run.
exec bash tests/runtime/run "${BUILD:-build}/test-runtime"
