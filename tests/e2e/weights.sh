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
for rules in q8_row q8_2f q4_block q1 q1t q1t:0% q1t:12.5% "q8_row,blk.*.attn_[qv].*=q1t:5%,blk.*.ffn_down.*=q1t:6%"; do
    check "$tied" "$rules"
done
check "$bias" q8_2f --target android-2022-baseline
check "$tied" q8_2f --accuracy fast
check "$tied" "q8_2f,blk.*.attn_k.*=q8_row,*embd*=keep"
check "$bias" q1t:20% --target android-2022-baseline
check "$tied" q1t:20% --accuracy fast
[ -n "$QCC_SHARED" ] || { skip "no shared models"; finish; }
for rules in q1t:10% q8_2f "q8_2f,*gate_inp*=q8_2f"; do
    check "$QCC_SHARED/fixtures/models/mixtral.gguf" "$rules"
done
stories=$QCC_SHARED/models/tiny-stories-3m-f16.gguf
if [ "$DRIVER" != swiftshader ]; then
    check "$stories" q1t:10%
    check "$stories" q8_2f
fi
# the shader compilers of older systems do not know cooperative matrices, and qcc says so
succeeds "cooperative matrices: explain" "$qcc" explain "$stories" --target nvidia-h200
if grep -q '^  coopmat ' "$dir/stdout"; then
    skip "cooperative matrices: the shader compiler lacks them"
else
    succeeds "cooperative matrices" "$qcc" -q "$stories" --weights "q8_2f,blk.*.ffn*=q1t:10%" \
        --target nvidia-h200 --accuracy fast -o "$dir/out"
    succeeds "cooperative matrices: info" "$dir/out" info
    for f in q1t q8_2f; do holds "cooperative matrices" "$dir/stdout" "matmul_coopmat $f"; done
fi
finish
