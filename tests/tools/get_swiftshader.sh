#!/bin/sh
# Fetches SwiftShader, a second software Vulkan driver, and prints the path for VK_DRIVER_FILES.
#
#   get_swiftshader.sh [DIR]     default: build/swiftshader in the project
#
# Debian ships it inside chromium-common; only its two files are taken, nothing is installed.
# Needs apt-get and dpkg-deb.
set -eu
dir=${1:-$(dirname "$0")/../../build/swiftshader}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ ! -e "$dir/vk_swiftshader_icd.json" ]; then
    work=$(mktemp -d "$dir/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root chromium-common >&2) ||
        { echo "get_swiftshader: cannot download chromium-common (try apt-get update)" >&2; exit 1; }
    dpkg-deb -x "$work"/chromium-common_*.deb "$work/x"
    cp "$work/x/usr/lib/chromium/libvk_swiftshader.so" "$dir/"
    cp "$work/x/usr/lib/chromium/vk_swiftshader_icd.json" "$work/icd.json"
    mv "$work/icd.json" "$dir/vk_swiftshader_icd.json"
fi
echo "$dir/vk_swiftshader_icd.json"
