#!/bin/sh
# bench.sh QCC [MODEL.gguf...] - compiles each model for the local device and measures it: compile time with a cold and a warm shader
# cache, size of the runtime, time to the first token, prompt and decode speed. Default: the example model.
set -e
qcc=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- "$root/examples/tiny-stories-3m-q4_k_m.gguf"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache"
seconds() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(seconds)" 'BEGIN { printf "%.2f", b - a }'; }
"$qcc" --version
for model; do
    echo "== $(basename "$model")"
    t=$(seconds)
    "$qcc" -q "$model" -o "$work/m" $QCC_FLAGS
    echo "compile, cold cache: $(since "$t") s"
    t=$(seconds)
    "$qcc" -q "$model" -o "$work/m" $QCC_FLAGS
    echo "compile, warm cache: $(since "$t") s"
    echo "executable: $(stat -c %s "$work/m") bytes"
    t=$(seconds)
    "$work/m" -p 'Once upon a time' -n 1 --temp 0 >/dev/null
    echo "load, pipelines and first token, cold driver cache: $(since "$t") s"
    t=$(seconds)
    "$work/m" -p 'Once upon a time' -n 1 --temp 0 >/dev/null
    echo "load and first token, warm driver cache: $(since "$t") s"
    "$work/m" bench ${BENCH_FLAGS:--p 128 -n 64 -r 3}
done
