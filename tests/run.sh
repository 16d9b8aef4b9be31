#!/bin/sh
# run.sh quick|all - builds and runs the tests; closes with 'N passed, N failed, N skipped'.
#
#   BUILD   build directory          DRIVER  lavapipe (default), swiftshader, or local (whatever the loader finds)
#   ONLY    run only the tests whose name contains this
#
# Unit tests (tests/unit), kernel tests (tests/kernels) and end-to-end tests (tests/e2e/*.sh) each print one line per failure and
# a closing line of their own; a test that ends without one, or with a status that disagrees, counts as one failure.
mode=${1:-all}
BUILD=${BUILD:-build}
DRIVER=${DRIVER:-lavapipe}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 3
if [ -z "$QCC_SHARED" ] && [ -d "$root/../shared/fixtures" ]; then QCC_SHARED=$(cd "$root/../shared" && pwd); fi
[ -n "$QCC_SHARED" ] && export QCC_SHARED
export BUILD DRIVER
# a model of every kind and format end to end takes minutes: with the first driver, not in the quick tests
[ "$mode:$DRIVER" = all:lavapipe ] && export QCC_ALL_MODELS=1
case $DRIVER in
lavapipe) for f in /usr/share/vulkan/icd.d/lvp_icd*.json; do [ -e "$f" ] && export VK_DRIVER_FILES="$f" VK_ICD_FILENAMES="$f"; done ;;
swiftshader)
    icd=$(sh tests/tools/get_swiftshader.sh "$BUILD/swiftshader") || { echo "SwiftShader could not be fetched"; exit 3; }
    export VK_DRIVER_FILES="$icd" VK_ICD_FILENAMES="$icd" ;;
local) ;;
*) echo "DRIVER is lavapipe, swiftshader or local, not '$DRIVER'" >&2; exit 2 ;;
esac
if [ -z "$QCC_VALIDATE" ] && ls /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json >/dev/null 2>&1; then export QCC_VALIDATE=1; fi

XDG_CACHE_HOME=$(cd "$BUILD" && pwd)/test-cache
export XDG_CACHE_HOME
log=$BUILD/test-log
mkdir -p "$BUILD/tests" "$log"
passed=0 failed=0 skipped=0

run() { # NAME COMMAND...
    name=$1
    shift
    case $name in *"$ONLY"*) ;; *) return ;; esac
    start=$(date +%s)
    "$@" >"$log/$name.log" 2>&1
    status=$?
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log/$name.log" | tail -n 1)
    p=0 f=1 s=0
    if [ -n "$line" ]; then
        p=$(echo "$line" | awk '{print $1}') f=$(echo "$line" | awk '{print $3}') s=$(echo "$line" | awk '{print $5}')
        [ $status -ne 0 ] && [ "$f" = 0 ] && f=1
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-28s %6d passed %4d failed %4d skipped  %4d s\n' "$name" "$p" "$f" "$s" $(($(date +%s) - start))
    if [ "$f" != 0 ]; then
        [ -n "$line" ] || echo "    ended with status $status and no closing line"
        grep -E '^(FAIL|skip)' "$log/$name.log" | head -n 20 | sed 's/^/    /'
        grep -qE '^FAIL' "$log/$name.log" || tail -n 8 "$log/$name.log" | sed 's/^/    /'
    elif [ "$s" != 0 ]; then
        grep -E '^skip' "$log/$name.log" | head -n 5 | sed 's/^/    /'
    fi
}

for t in tests/unit/test_*.c tests/kernels/test_*.c; do
    name=$(basename "$t" .c)
    case $name in *"$ONLY"*) ;; *) continue ;; esac
    case $mode:$t in quick:tests/kernels/*) continue ;; esac # a software driver takes minutes to compile them
    if make -s --no-print-directory "$BUILD/tests/$name" >"$log/$name.build" 2>&1; then
        run "$name" "$BUILD/tests/$name"
    else
        run "$name" sh -c "cat '$log/$name.build'; exit 1"
    fi
done
# the kernel tests again, on the device as the weakest target
if [ "$mode:$DRIVER" = all:lavapipe ]; then
    for t in matvec matmul moe embed attention small; do
        case "test_$t (weakest)" in *"$ONLY"*) ;; *) continue ;; esac
        make -s --no-print-directory "$BUILD/tests/test_$t" >/dev/null 2>&1 # what fails is told above
        run "test_$t (weakest)" env QCC_TARGET=weakest "$BUILD/tests/test_$t"
    done
fi
for t in $(ls tests/e2e/*.sh 2>/dev/null); do
    name=$(basename "$t" .sh)
    case $name in lib) continue ;; esac
    case $mode:$(sed -n '2s/^# *//p' "$t") in quick:slow*) continue ;; esac
    run "e2e_$name" sh "$t"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
