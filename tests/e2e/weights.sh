#!/bin/sh
# Models stored in formats of qcc's own: what the program computes is what the reference computes with the same weights.
. tests/e2e/lib.sh

check() { # MODEL RULES [FLAG...]
    model=$1 rules=$2
    shift 2
    succeeds "$model $rules $*: compile" "$qcc" -q "$model" --weights "$rules" -o "$dir/out" "$@" || return
    succeeds "$model $rules $*: verify" "$dir/out" verify || return
    holds "$model $rules $*: verify" "$dir/stdout" PASS
}

tied=tests/data/llama-tied.gguf bias=tests/data/llama-bias.gguf
for rules in q8_row q4_block q1 q1t q1t:0% q1t:12.5% "q8_row,blk.*.attn_[qv].*=q1t:5%,blk.*.ffn_down.*=q1t:6%"; do
    check "$tied" "$rules"
done
check "$bias" q1t:20% --target android-2022-baseline
check "$tied" q1t:20% --accuracy fast
[ -n "$QCC_SHARED" ] || { skip "no shared models"; finish; }
check "$QCC_SHARED/fixtures/models/mixtral.gguf" q1t:10%
[ "$DRIVER" = swiftshader ] || check "$QCC_SHARED/models/tiny-stories-3m-f16.gguf" q1t:10%

succeeds "for cooperative matrices" "$qcc" -q "$QCC_SHARED/models/tiny-stories-3m-f16.gguf" --weights q1t:10% --target nvidia-h200 --accuracy fast -o "$dir/out"
succeeds "for cooperative matrices: info" "$dir/out" info
holds "for cooperative matrices" "$dir/stdout" "matmul_coopmat q1t"
finish
