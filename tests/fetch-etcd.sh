#!/usr/bin/env bash
# Fetch the etcd of one Debian suite into a folder, without root and without touching the system:
#   tests/fetch-etcd.sh SUITE VERSION FOLDER      (trixie 3.5 ~/.cache/...)
# Leaves FOLDER/etcd, checked to be of VERSION (major.minor); does nothing when it is there.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

suite=$1 version=$2 folder=$3

fail() { echo "fetch-etcd: $*" >&2; exit 1; }
is_version() { # binary: whether it is the etcd asked for
  local says
  says=$("$1" --version 2>/dev/null) || return 1
  [[ $says == *"etcd Version: $version."* ]]
}

if [ -x "$folder/etcd" ] && is_version "$folder/etcd"; then exit 0; fi

if ! debian_fetch "$suite" "$folder/apt" download etcd-server; then
  on_path=$(command -v etcd || true)
  [ -n "$on_path" ] && is_version "$on_path" || fail "no etcd $version: $debian_why." \
    "Put one of that version on the PATH, or set TAFFRAIL_ETCD_${version//./_} to its path."
  mkdir -p "$folder"
  ln -sf "$on_path" "$folder/etcd"
  exit 0
fi
mv "$folder/apt/unpacked/usr/bin/etcd" "$folder/etcd"
rm -rf "$folder/apt"
is_version "$folder/etcd" || fail "the etcd-server of $suite is not of version $version:" \
  "$("$folder/etcd" --version 2>&1 | head -n 1)"
