#!/bin/sh
# demo.sh QCC - compiles the example model for the local Vulkan device (or the software driver) and runs it.
set -e
qcc=$1
dir=$(dirname "$0")
out=${OUT:-$(dirname "$qcc")/tiny-stories}
prompt='Once upon a time'

echo "\$ qcc examples/tiny-stories-3m-q4_k_m.gguf -o $out"
"$qcc" "$dir/tiny-stories-3m-q4_k_m.gguf" -o "$out"
echo
echo "\$ $out verify"
"$out" verify
echo
echo "\$ $out -p '$prompt' -n 120 --temp 0"
"$out" -p "$prompt" -n 120 --temp 0
echo
echo
ls -l "$out" | awk '{print "One executable of " $5 " bytes: weights, kernels, tokenizer and runtime. It needs libc and a Vulkan driver."}'
