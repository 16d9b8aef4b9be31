#!/bin/sh
# shaderc_libs.sh CC [static] - prints the linker flags for the shader compiler: the shared library where it can be linked (Debian 12's lacks
# symbols), else the static ones, whose names differ between distributions.
cc=$1
if [ "$2" != static ]; then
    dir=$(mktemp -d) || exit 3
    trap 'rm -rf "$dir"' EXIT
    echo 'void *shaderc_compiler_initialize(void); int main(void) { return !shaderc_compiler_initialize(); }' >"$dir/t.c"
    if $cc -o "$dir/t" "$dir/t.c" -lshaderc >/dev/null 2>&1; then
        echo -lshaderc
        exit 0
    fi
fi
list=
for l in shaderc_combined glslang SPIRV-Tools-opt SPIRV-Tools SPIRV MachineIndependent GenericCodeGen OSDependent OGLCompiler HLSL \
    glslang-default-resource-limits; do
    [ -e "$($cc -print-file-name=lib$l.a)" ] && list="$list -l:lib$l.a"
done
echo "$list $list -l:libstdc++.a -static-libgcc"
