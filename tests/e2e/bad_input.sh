#!/bin/sh
# Everything that can be wrong gets one clear line, the right exit status, and leaves nothing half-written.
. tests/e2e/lib.sh
unset QCC_VALIDATE

compile() { # a compilation as most checks need it
    "$qcc" -q --check 0 "$@" -o "$dir/out"
}
left() { # NAME: nothing was written
    if [ -e "$dir/out" ] || ls "$dir"/out.* >/dev/null 2>&1; then miss "$1: left something behind: $(ls "$dir")"; else pass; fi
}
bad_model() { # NAME TEXT: compiling $dir/bad.gguf is refused
    refuses "$1" 1 "$2" compile "$dir/bad.gguf"
    left "$1"
}
damaged() { # OFFSET BYTES: $dir/bad.gguf is the example with some bytes replaced
    cp "$example" "$dir/bad.gguf"
    poke "$dir/bad.gguf" "$1" "$2"
}
at() { # TEXT [MORE]: where it begins in the example, MORE bytes further
    echo $(($(offset_of "$example" "$1") + ${2:-0}))
}

# ---- command line
refuses "no argument" 2 "no model given" "$qcc"
refuses "no output" 2 "no output: add -o" "$qcc" "$example"
refuses "unknown option" 2 "unknown option '--fast'" compile "$example" --fast
refuses "option without value" 2 "option --ctx needs a value" "$qcc" "$example" --ctx
refuses "context of no number" 2 "--ctx takes a number from 1" compile "$example" --ctx 4k
refuses "context of nothing" 2 "--ctx takes a number from 1" compile "$example" --ctx 0
refuses "cache type" 2 "one of f16, f32, q8_0, not 'f8'" compile "$example" --kv f8
refuses "accuracy" 2 "one of exact, fast, not 'best'" compile "$example" --accuracy best
refuses "budget" 2 "takes a size such as 6G" compile "$example" --vram-budget many
refuses "dump" 2 "one of model, graph, steps, plan, kernels" "$qcc" "$example" --dump trees
refuses "weights" 2 "cannot make the format 'q4_1'" compile "$example" --weights q4_1
refuses "two models" 2 "unexpected argument" compile "$example" "$example"
refuses "explain without a model" 2 "needs a model file" "$qcc" explain
left "command line"

# ---- the model file
refuses "no such file" 1 "no.gguf: cannot open" compile "$dir/no.gguf"
refuses "a directory" 1 "$dir: " compile "$dir"
: >"$dir/bad.gguf"
bad_model "an empty file" "the file is empty"
head -c 20 "$example" >"$dir/bad.gguf"
bad_model "a cut header" "too few for a GGUF header"
for cut in 24 100 5000 30000 60000 100000 1000000; do
    head -c $cut "$example" >"$dir/bad.gguf"
    bad_model "cut after $cut bytes" "truncated"
done
cp README.md "$dir/bad.gguf"
bad_model "not a model" "not a GGUF file"
damaged 0 'GGML'
bad_model "magic" "not a GGUF file"
damaged 4 '\011'
bad_model "version" "GGUF version 9 is unknown"
damaged 4 '\000\000\000\003'
bad_model "byte order" "big-endian"
damaged 8 '\377\377\377\377\377\377\377\177'
bad_model "tensor count" "bad.gguf"
damaged 16 '\377\377\377\377\377\377\377\377'
bad_model "metadata count" "bad.gguf"
damaged "$(at general.architecture 32)" 'zebra'
bad_model "architecture" 'general.architecture is "zebra", known are: llama'
damaged "$(at llama.block_count -8)" '\377\377\377\377\377\377\377\377'
bad_model "length of a key" "bad.gguf"
damaged "$(at llama.block_count 17)" '\143'
bad_model "type of a value" "unknown type 99"
damaged "$(at llama.block_count 21)" '\377\377\377\377'
bad_model "layers" "'llama.block_count' is 4294967295; expected"
damaged "$(at llama.embedding_length 26)" '\377\377\000\000'
bad_model "width" "bad.gguf: "
damaged "$(at llama.attention.head_count 30)" '\000\000\000\000'
bad_model "no heads" "layer 0 has 0 heads"
damaged "$(at llama.attention.head_count 30)" '\007\000\000\000'
bad_model "heads that do not divide" "bad.gguf: "
damaged "$(at tokenizer.ggml.pre 32)" 'no'
bad_model "pre-tokenizer" "'tokenizer.ggml.pre'"
damaged "$(at blk.0.attn_q.weight)" 'blk.0.attn_z'
bad_model "a tensor is missing" "blk.0.attn_"
damaged "$(at blk.0.attn_q.weight 19)" '\000\000\000\000'
bad_model "no dimensions" "0 dimensions; expected 1 to 4"
damaged "$(at blk.0.attn_q.weight 23)" '\001\000\000\000\000\000\000\200'
bad_model "a shape that lies" "'blk.0.attn_q.weight'"
damaged "$(at blk.0.attn_q.weight 23)" '\000\002\000\000\000\000\000\000'
bad_model "a wider matrix" "blk.0.attn_"
damaged "$(at blk.0.attn_q.weight 39)" '\377\000\000\000'
bad_model "unknown weight format" "type 255 is unknown"
damaged "$(at blk.0.attn_q.weight 43)" '\001\000\000\000\000\000\000\000'
bad_model "an offset that is not aligned" "not a multiple of the alignment"
damaged "$(at blk.0.attn_q.weight 43)" '\000\000\000\000\000\000\000\001'
bad_model "an offset beyond the end" "'blk.0.attn_q.weight'"
damaged "$(($(wc -c <"$example") - 144))" '\000\174' # the f16 scale of the last block, which is Q4_K
bad_model "a scale that is infinite" "the scale at row 767, column 0 is infinite or not a number"
damaged "$(($(wc -c <"$example") - 144))" '\001\176'
bad_model "a scale that is not a number" "'blk.5.ffn_up.weight'"

# ---- target and environment
refuses "unknown target" 1 "no-such-gpu" compile "$example" --target no-such-gpu
left "unknown target"
echo '{"capabilities": 3' >"$dir/t.json"
refuses "a profile that is no JSON" 1 "not valid JSON" compile "$example" --target "$dir/t.json"
refuses "no C compiler" 3 "cannot run the C compiler 'no-such-cc'" compile "$example" --cc no-such-cc
refuses "a C compiler that fails" 3 "the C compiler 'false' failed" compile "$example" --cc false
refuses "no driver" 3 "no Vulkan d" env VK_DRIVER_FILES=/none VK_ICD_FILENAMES=/none "$qcc" -q "$example" -o "$dir/out"
refuses "a budget too small" 1 "the memory budget is" compile "$example" --vram-budget 100K
left "environment"
refuses "unwritable" 3 "cannot write: No such file or directory" "$qcc" -q "$example" -o "$dir/no/such/out"
mkfifo "$dir/pipe"
refuses "a program into a pipe" 1 "this is a device or pipe" "$qcc" -q "$example" -o "$dir/pipe"
if [ "$(id -u)" = 0 ] && mkdir "$dir/small" && mount -t tmpfs -o size=2m none "$dir/small" 2>/dev/null; then
    refuses "a full disk" 3 "No space left" "$qcc" -q --check 0 "$example" -o "$dir/small/out"
    equal "a full disk: leftovers" "$(ls "$dir/small")" ""
    umount "$dir/small"
else
    skip "a full disk: no tmpfs can be mounted here"
fi
echo kept >"$dir/out"
head -c 5000 "$example" >"$dir/bad.gguf"
refuses "an earlier output" 1 "truncated" compile "$dir/bad.gguf"
equal "an earlier output is kept" "$(cat "$dir/out")" kept

# ---- the executable
succeeds "compile" compile "$example" || finish
out=$dir/out
refuses "no prompt" 2 "no prompt; give one" "$out"
refuses "two prompts" 2 "more than one prompt" "$out" -p a -f README.md
refuses "unknown option" 2 "unknown option '--top-q'" "$out" --top-q 3 -p a
refuses "unknown command" 2 "unknown command 'sing'" "$out" sing
refuses "temperature" 2 "--temp takes a number" "$out" -p a --temp hot
refuses "number of tokens" 2 "-n takes a whole number" "$out" -p a -n -3
refuses "an empty prompt file" 1 "the prompt is empty" "$out" --tokens /dev/null
refuses "no such prompt" 1 "no.txt: cannot be read" "$out" -f "$dir/no.txt"
yes 'a little cat' | head -n 600 >"$dir/long.txt"
refuses "a prompt longer than the context" 1 "the context of this program 512" "$out" -f "$dir/long.txt"
echo 1 2 99999 >"$dir/ids"
refuses "an id beyond the vocabulary" 1 "token 2 is 99999, expected an id below 2048" "$out" --tokens "$dir/ids"
echo 1 2 3 >"$dir/ids"
succeeds "logits" "$out" logits --tokens "$dir/ids" --out "$dir/logits"
timeout 60 cat "$dir/pipe" >"$dir/piped" &
succeeds "logits into a pipe" "$out" logits --tokens "$dir/ids" --out "$dir/pipe"
wait $!
same "logits into a pipe" "$dir/logits" "$dir/piped"
[ -p "$dir/pipe" ]; equal "the pipe is still one" $? 0
echo 1 two 3 >"$dir/ids"
refuses "an id that is none" 1 "token 1, at byte 2, is not a number" "$out" --tokens "$dir/ids"
refuses "no such device" 3 "--device 77 does not exist" "$out" -p a --device 77
refuses "no driver" 3 "no Vulkan driver" env VK_DRIVER_FILES=/none VK_ICD_FILENAMES=/none "$out" -p a
refuses "a full output" 3 "cannot write the output" sh -c '"$1" -p "Once upon a time" --temp 0 -n 20 >/dev/full' sh "$out"
refuses "bench beyond the context" 1 "the context of this program is 512" "$out" bench -p 4000
echo 1 2 3 >"$dir/ids"
refuses "logits nowhere" 1 "cannot be written" "$out" logits --tokens "$dir/ids" --out "$dir/no/such"
for call in 1 5 20; do
    "$out" -p a -n 2 >/dev/null 2>&1
    refuses "a Vulkan call that fails ($call)" 3 "" env QCC_FAIL_VK=$call "$out" -p a -n 2
done
size=$(wc -c <"$out")
for part in 3 2; do # in the weights
    cp "$out" "$dir/broken"
    poke "$dir/broken" $((size / part)) '\125\252\125\252\125\252\125\252\125'
    refuses "a damaged payload (at 1/$part)" 1 "this executable is damaged" "$dir/broken" -p a -n 2
done
cp "$out" "$dir/broken"
poke "$dir/broken" $((size - 20)) '\125\252'
refuses "a damaged footer" 1 "this executable is damaged" "$dir/broken" -p a -n 2
head -c $((size - 1000)) "$out" >"$dir/broken" && chmod +x "$dir/broken"
refuses "a cut executable" 1 "this executable is damaged" "$dir/broken" -p a -n 2
finish
