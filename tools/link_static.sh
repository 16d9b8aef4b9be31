#!/bin/sh
# link_static.sh CC OUT OBJECT... - qcc with everything but libc inside: runs on any glibc as new as this machine's.
set -e
cc=$1 out=$2
shift 2
shaderc=
for l in shaderc_combined glslang SPIRV-Tools-opt SPIRV-Tools SPIRV MachineIndependent GenericCodeGen OSDependent OGLCompiler HLSL \
    glslang-default-resource-limits; do
    [ -e "$($cc -print-file-name=lib$l.a)" ] && shaderc="$shaderc -l:lib$l.a"
done
# shellcheck disable=SC2086
exec $cc -o "$out" "$@" -l:liblua5.4.a -l:libjansson.a -l:libzstd.a -l:libxxhash.a $shaderc $shaderc -lstdc++ -ldl -lm -pthread
