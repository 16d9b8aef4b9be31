# lib.sh - what the end-to-end tests share; sourced by them: . tests/e2e/lib.sh
#
# A test runs in the repository's root with BUILD, CC and DRIVER as tests/run.sh sets them. It counts with pass, miss and skip, works in
# $dir (removed at the end) and closes with finish.
BUILD=${BUILD:-build}
CC=${CC:-cc}
qcc=$BUILD/qcc
example=examples/tiny-stories-3m-q4_k_m.gguf
test_name=e2e/$(basename "$0" .sh)
passed=0 failed=0 skipped=0
dir=$(mktemp -d "${TMPDIR:-/tmp}/qcc-e2e.XXXXXX") || exit 3
trap 'rm -rf "$dir"' EXIT
trap 'exit 3' HUP INT TERM

pass() { passed=$((passed + 1)); }
miss() { failed=$((failed + 1)); echo "FAIL $test_name: $*"; }
skip() { skipped=$((skipped + 1)); echo "skip: $test_name: $*"; }
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}

equal() { # NAME FOUND EXPECTED
    if [ "$2" = "$3" ]; then pass; else miss "$1: expected '$3', found '$2'"; fi
}

holds() { # NAME FILE TEXT: the file contains the text
    if grep -qF -- "$3" "$2"; then pass; else miss "$1: no '$3' in: $(head -c 600 "$2")"; fi
}

same() { # NAME FILE FILE: equal bytes
    if cmp -s "$2" "$3"; then pass; else miss "$1: the files differ"; fi
}

succeeds() { # NAME COMMAND...: status 0; what it prints lies in $dir/stdout and $dir/stderr
    name=$1
    shift
    "$@" >"$dir/stdout" 2>"$dir/stderr" </dev/null
    found=$?
    if [ $found = 0 ]; then pass; else miss "$name: status $found: $(head -c 600 "$dir/stderr")"; fi
    return $found
}

refuses() { # NAME STATUS TEXT COMMAND...: that status, and one line on stderr that contains TEXT
    name=$1 status=$2 text=$3
    shift 3
    "$@" >"$dir/stdout" 2>"$dir/stderr" </dev/null
    found=$?
    if [ $found = "$status" ] && grep -qF -- "$text" "$dir/stderr" && [ "$(wc -l <"$dir/stderr")" = 1 ]; then pass
    else miss "$name: expected status $status and one line with '$text', found status $found: $(head -c 600 "$dir/stderr")"; fi
}

poke() { # FILE OFFSET BYTES: bytes as printf writes them (\001\000)
    # shellcheck disable=SC2059
    printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

offset_of() { # FILE TEXT: where the text first begins
    LC_ALL=C grep -obaF -m 1 -- "$2" "$1" | head -n 1 | cut -d: -f1
}
