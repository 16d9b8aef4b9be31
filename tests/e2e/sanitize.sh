#!/bin/sh
# slow: bad input and damaged files again, with qcc, the runtime and the parsers under AddressSanitizer and UndefinedBehaviorSanitizer.
. tests/e2e/lib.sh
export UBSAN_OPTIONS=halt_on_error=1 ASAN_OPTIONS=detect_leaks=0 # what a failed compilation held goes with the process
build=$BUILD/sanitize
jobs=$(nproc)

if ! echo 'int main(void) { return 0; }' | "$CC" -fsanitize=address,undefined -x c - -o "$dir/probe" 2>/dev/null || ! "$dir/probe"; then
    skip "this compiler has no sanitizers"
    finish
fi
succeeds "build" make -j"$jobs" BUILD="$build" CFLAGS="-O1 -g" SANITIZE=address,undefined all || finish

count() { # NAME COMMAND...: the closing line of another test is added
    name=$1
    shift
    "$@" >"$dir/log" 2>&1
    status=$?
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$dir/log" | tail -n 1)
    found=$(echo "$line" | cut -d' ' -f1)
    passed=$((passed + ${found:-0}))
    if [ -n "$line" ] && [ $status = 0 ]; then pass; else miss "$name: status $status: $(grep -E '^FAIL|ERROR|runtime error' "$dir/log" | head -n 5)"; fi
}

count "bad input" env BUILD="$build" sh tests/e2e/bad_input.sh
count "runtime" env QCC_SANITIZE=1 bash tests/runtime/run "$build/test-runtime"
for t in test_util test_gguf test_gguf_split test_model test_graph test_token test_vocab test_target test_weights; do
    succeeds "$t: build" make BUILD="$build" CFLAGS="-O1 -g" SANITIZE=address,undefined "$build/tests/$t" && count "$t" "$build/tests/$t"
done
for f in gguf token; do
    succeeds "fuzz_$f: build" make BUILD="$build" CFLAGS="-O1 -g" SANITIZE=address,undefined "$build/tests/fuzz_$f" &&
        succeeds "fuzz_$f: corpus" "$build/tests/fuzz_$f" tests/fuzz/corpus/$f/*
done
finish
