#!/usr/bin/env bash
# Installs what pip cannot: the software renderer for pictures and videos, and, with the argument
# "tests", the browser in which the report page is tested. Where packages cannot be installed it
# says so in a sentence and goes on: everything but the pictures works without them.
set -u

packages=()
ldconfig -p 2>/dev/null | grep -q libOSMesa || packages+=(libosmesa6)
if [ "${1:-}" = tests ] && ! command -v chromium >/dev/null 2>&1; then
  packages+=(chromium)
fi
[ ${#packages[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "Not a Debian-like system: install OSMesa${1:+ and Chromium} by hand to get pictures and videos." >&2
  exit 0
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    echo "No right to install packages: ask for 'apt-get install ${packages[*]}' to get pictures and videos." >&2
    exit 0
  fi
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq >/dev/null 2>&1
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null 2>&1 ||
  echo "Installing ${packages[*]} failed: pictures and videos may be missing." >&2
exit 0
