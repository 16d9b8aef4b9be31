#!/bin/sh
# slow: perplexity of the shared models on their held-out text, within 0.5 % of the reference's.
. tests/e2e/lib.sh
[ -n "$QCC_SHARED" ] || { skip "no shared models"; finish; }
models=$QCC_SHARED/models

check() { # MODEL REFERENCE [FLAG...]
    model=$1 want=$2
    shift 2
    succeeds "$model $*: compile" "$qcc" -q --check 0 "$models/tiny-stories-3m-$model.gguf" -o "$dir/out" "$@" || return
    succeeds "$model $*: perplexity" "$dir/out" perplexity "$models/heldout.txt" || return
    found=$(grep -oE '[0-9]+\.[0-9]{3,}' "$dir/stdout" | tail -n 1)
    echo "perplexity of $model $*: $found, reference $want"
    if awk -v f="$found" -v w="$want" 'BEGIN { exit !(f > 0 && f < 1.005 * w && f > 0.995 * w) }'; then pass
    else miss "$model $*: perplexity '$found', expected $want within 0.5 %"; fi
}

# SwiftShader takes minutes for each
[ "$DRIVER" = swiftshader ] && { check q4_k_m 1.44073; finish; }
check f16 1.44021
check q8_0 1.44021
check q4_k_m 1.44073
check q4_k_m 1.44073 --kv q8_0
check q8_0 1.44021 --accuracy fast
check f16 1.44021 --weights q8_row
check f16 1.44021 --weights q8_2f
finish
