#!/bin/sh
# gen_formats.sh OUT.c - writes the table of weight formats (compiler/format.h) from the files kernels/formats/*.h.
# Run from the project's root; OUT.c is complete or absent.
set -eu
export LC_ALL=C
out=$1
trap 'rm -f "$out.tmp"' EXIT
{
    echo '/* Written by tools/gen_formats.sh from kernels/formats. */'
    echo '#include "compiler/format.h"'
    for f in kernels/formats/*.h; do
        name=$(basename "$f" .h)
        echo
        echo "#include \"$f\""
        echo "static const Format format_$name = {"
        echo "    .name = \"$name\", .gguf_type = FMT_GGUF_TYPE, .block_n = FMT_BLOCK_N, .block_bytes = FMT_BLOCK_BYTES,"
        echo "    .n_planes = FMT_N_PLANES, .plane_bytes = {FMT_PLANE_BYTES}, .plane_span = {FMT_PLANE_SPAN},"
        quantize=$(grep -q "void ${name}_quantize(" "$f" && echo "${name}_quantize" || echo NULL)
        grep -q '^#define FMT_FACTOR_PLANE' "$f" && echo "    .factor_plane = FMT_FACTOR_PLANE,"
        grep -q '^#define FMT_SHARED_BYTES' "$f" && echo "    .shared_bytes = FMT_SHARED_BYTES,"
        grep -q '^#define FMT_OUTLIERS' "$f" && echo "    .outliers = FMT_OUTLIERS,"
        grep -q '^#define FMT_COLUMNS' "$f" && echo "    .columns = true,"
        echo "    .codes = FMT_CODES, .decode = ${name}_decode, .pack = ${name}_pack, .quantize = $quantize};"
        sed -n 's/^#define \(FMT_[A-Z0-9_]*\).*/#undef \1/p' "$f" | sort -u
    done
    echo
    echo 'const Format *const formats[] = {'
    for f in kernels/formats/*.h; do echo "    &format_$(basename "$f" .h),"; done
    echo '    NULL};'
} > "$out.tmp"
mv "$out.tmp" "$out"
