#!/bin/sh
# What a user does, from the model to the story: compile, look, run; the same bytes and the same tokens twice.
. tests/e2e/lib.sh

# ---- compile
succeeds "compile" "$qcc" -q "$example" -o "$dir/story" || finish
succeeds "again, one thread, no cache" "$qcc" -q -j1 --no-cache "$example" -o "$dir/again"
same "two builds" "$dir/story" "$dir/again"
succeeds "in another directory" sh -c 'q=$(readlink -f "$1") m=$(readlink -f "$2") && cd "$3" && "$q" -q "$m" -o elsewhere' sh "$qcc" "$example" "$dir"
same "a build elsewhere" "$dir/story" "$dir/elsewhere"
equal "libraries besides libc" "$(ldd "$dir/story" | grep -vE 'linux-vdso|libc\.|libm\.|ld-linux')" ""
equal "no path of this machine" "$(LC_ALL=C grep -c -a -F "$PWD" "$dir/story")" 0
story=$dir/story

# ---- look
succeeds "qcc --help" "$qcc" --help
for word in --target --ctx --batch --kv --accuracy --vram-budget --weights --cc --emit --dump inspect explain probe targets script; do
    holds "qcc --help" "$dir/stdout" " $word"
done
succeeds "--help" "$story" --help
for word in -p -f --tokens -n --temp --top-k --top-p --min-p --repeat-penalty --seed --ids --device bench verify info perplexity tokenize detokenize logits; do
    holds "OUT --help" "$dir/stdout" "$word"
done
succeeds "inspect" "$qcc" inspect "$example"
holds "inspect" "$dir/stdout" "blk.5.ffn_down.weight     Q6_K"
succeeds "explain" "$qcc" explain "$example" --target nvidia-h200
for word in matvec attention_decode q4_k "predicted" "bound by" memory; do holds "explain" "$dir/stdout" "$word"; done
succeeds "targets" "$qcc" targets
holds "targets" "$dir/stdout" nvidia-h200
succeeds "a GPU that is not here" "$qcc" -q "$example" --target nvidia-h200 -o "$dir/h200"
succeeds "its info" "$dir/h200" info
holds "its info" "$dir/stdout" "H200"
succeeds "info --json" "$story" info --json
cp "$dir/stdout" "$dir/info.json"
holds "info --json" "$dir/info.json" '"name": "Tiny Stories 3M"'
succeeds "emit" "$qcc" -q "$example" --emit "$dir/emit"
[ -s "$dir/emit/model.c" ] && pass || miss "emit: no model.c in: $(ls "$dir/emit")"
succeeds "dump" "$qcc" -q "$example" --dump model,graph,steps,plan,kernels
holds "dump" "$dir/stdout" "blk.0.attn_q"
succeeds "a build script" "$qcc" script examples/build.lua "$dir"
equal "a build script: programs" "$(ls "$dir"/tiny-stories-* | wc -l)" 3

# ---- run
succeeds "verify" "$story" verify
holds "verify" "$dir/stdout" PASS
succeeds "greedy" "$story" -p "Once upon a time" --temp 0 -n 60
cp "$dir/stdout" "$dir/greedy"
holds "a story" "$dir/greedy" "there was a"
succeeds "greedy again" "$story" -p "Once upon a time" --temp 0 -n 60
same "greedy twice" "$dir/stdout" "$dir/greedy"
for flags in "--temp 0.8 --seed 7" "--temp 1.2 --top-k 20 --seed 3" "--temp 1 --top-p 0.9 --seed 5" "--temp 1 --min-p 0.1 --repeat-penalty 1.2 --seed 9"; do
    # shellcheck disable=SC2086
    succeeds "$flags" "$story" -p "The cat" $flags -n 40 --ids
    cp "$dir/stdout" "$dir/first"
    # shellcheck disable=SC2086
    succeeds "$flags again" "$story" -p "The cat" $flags -n 40 --ids
    same "$flags twice" "$dir/stdout" "$dir/first"
done
succeeds "another seed" "$story" -p "The cat" --temp 1 --min-p 0.1 --repeat-penalty 1.2 --seed 10 -n 40 --ids
if cmp -s "$dir/stdout" "$dir/first"; then miss "seeds 9 and 10 give the same tokens"; else pass; fi
echo "Once upon a time" | tr -d '\n' >"$dir/prompt"
equal "a prompt from a file" "$("$story" -f "$dir/prompt" --temp 0 -n 60)" "$(cat "$dir/greedy")"
equal "a prompt from stdin" "$("$story" - --temp 0 -n 60 <"$dir/prompt")" "$(cat "$dir/greedy")"
"$story" tokenize <"$dir/prompt" >"$dir/ids"
equal "a prompt of ids" "$("$story" --tokens "$dir/ids" --temp 0 -n 60)" "$(cat "$dir/greedy")"
equal "detokenize" "$("$story" tokenize --no-bos <"$dir/prompt" | "$story" detokenize)" "Once upon a time"
for path in prefill decode; do
    succeeds "logits" "$story" logits --tokens "$dir/ids" --out "$dir/logits.$path" --path $path
    equal "logits: bytes" "$(wc -c <"$dir/logits.$path")" $(($(wc -w <"$dir/ids") * 2048 * 4))
    succeeds "logits again" "$story" logits --tokens "$dir/ids" --out "$dir/logits" --path $path
    same "logits twice" "$dir/logits" "$dir/logits.$path"
done
succeeds "bench" "$story" bench -p 32 -n 8 -r 1 --json
holds "bench" "$dir/stdout" '"tg"'
finish
