#!/bin/sh
# link_static.sh CC OUT OBJECT... - qcc with everything but libc inside: runs on any glibc as new as this machine's.
set -e
cc=$1 out=$2
shift 2
# shellcheck disable=SC2046
exec $cc -o "$out" "$@" -l:liblua5.4.a -l:libjansson.a -l:libzstd.a -l:libxxhash.a \
    $(sh "$(dirname "$0")/shaderc_libs.sh" "$cc" static) -ldl -lm -pthread
