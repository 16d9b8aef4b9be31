#!/bin/sh
# slow: the example model compiles for every profile, exact and fast, or says which limit forbids it; what is compiled for the weakest
# gives the same tokens here as what is compiled for the local driver.
. tests/e2e/lib.sh
prompt="Once upon a time"

"$qcc" targets | awk '{ print $1 }' >"$dir/names"
[ "$(wc -l <"$dir/names")" -ge 16 ] && pass || miss "qcc targets lists $(wc -l <"$dir/names") profiles, expected 16 or more"
[ -z "$QCC_SHARED" ] || ls "$QCC_SHARED"/targets/*.json >>"$dir/names"

while read -r target; do
    for accuracy in exact fast; do
        name="$(basename "$target" .json), $accuracy"
        "$qcc" -q --check 0 "$example" --target "$target" --accuracy $accuracy -o "$dir/out" >"$dir/stdout" 2>"$dir/stderr" </dev/null
        status=$?
        if [ $status = 0 ] && "$dir/out" info >"$dir/info"; then pass
        elif [ $status = 1 ] && [ "$(wc -l <"$dir/stderr")" = 1 ] && grep -qE "target '.*': [A-Za-z]+ is [0-9]+" "$dir/stderr"; then
            pass
            echo "$name: $(cat "$dir/stderr")"
        else miss "$name: status $status: $(head -c 600 "$dir/stderr")"; fi
        rm -f "$dir/out"
    done
done <"$dir/names"

# programs for other devices that this one can run: the same tokens
succeeds "local" "$qcc" -q --check 0 "$example" -o "$dir/out" || finish
"$dir/out" -p "$prompt" --temp 0 -n 40 --ids >"$dir/local"
for target in android-2022-baseline android-15-requirements lavapipe-25.0; do
    succeeds "$target" "$qcc" -q --check 0 "$example" --target $target -o "$dir/out" || continue
    "$dir/out" -p "$prompt" --temp 0 -n 40 --ids >"$dir/stdout" 2>"$dir/stderr"
    if [ $? = 3 ] && grep -q 'cannot run this program' "$dir/stderr"; then
        skip "$target: $(head -n 1 "$dir/stderr")"
    else
        same "$target: greedy tokens" "$dir/stdout" "$dir/local"
    fi
done
finish
