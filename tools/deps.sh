#!/bin/sh
# deps.sh - installs the packages that the build needs and that are missing (Debian 12, Debian 13, Ubuntu 24.04). Does nothing when
# everything is there. QCC_NO_INSTALL=1 only says what is missing.
set -e
missing=
need() { # PACKAGE FILE...: the package is there when one of the files is
    pkg=$1
    shift
    for f; do
        for g in $f; do [ -e "$g" ] && return 0; done
    done
    missing="$missing $pkg"
}
lib='/usr/lib/*-linux-gnu'
command -v cc >/dev/null 2>&1 && command -v ar >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
# Debian 12's shader compiler links statically only, with the C++ library
need g++ '/usr/lib/gcc/*/*/libstdc++.a'
need libc6-dev "$lib/libm.a" '/usr/include/*/stdio.h' /usr/include/stdio.h
need pkg-config /usr/bin/pkg-config
need libshaderc-dev /usr/include/shaderc/shaderc.h
need libvulkan-dev /usr/include/vulkan/vulkan.h
need libvulkan1 "$lib/libvulkan.so.1"
need libvulkan-volk-dev /usr/include/volk.h
need liblua5.4-dev /usr/include/lua5.4/lua.h
need libzstd-dev /usr/include/zstd.h
need libjansson-dev /usr/include/jansson.h
need libxxhash-dev /usr/include/xxhash.h
# a software Vulkan driver when there is no driver at all
need mesa-vulkan-drivers '/usr/share/vulkan/icd.d/*.json' '/etc/vulkan/icd.d/*.json' "${VK_DRIVER_FILES:-/nonexistent}"
[ -z "$missing" ] && exit 0
# shellcheck disable=SC2086
set -- $missing
echo "qcc needs these packages: $*"
if [ "${QCC_NO_INSTALL:-0}" = 1 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "install them and try again (the names are Debian's)" >&2
    exit 3
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing them ..."
{ $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "$@"; } >"$log" 2>&1 ||
    { tail -n 15 "$log" >&2; echo "the packages could not be installed" >&2; exit 3; }
