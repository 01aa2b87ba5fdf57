#!/usr/bin/env bash
# Fetch the kubectl of one Debian suite into a folder, without root and without touching the system:
#   tests/fetch-kubectl.sh SUITE PACKAGE VERSION FOLDER      (bookworm kubernetes-client 1.20 ~/.cache/...)
# Leaves FOLDER/kubectl, checked to be of VERSION (major.minor); does nothing when it is there.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

suite=$1 package=$2 version=$3 folder=$4

fail() { echo "fetch-kubectl: $*" >&2; exit 1; }
is_version() { # binary: whether it is the kubectl asked for
  local says
  says=$("$1" version --client 2>/dev/null) || return 1
  [[ $says == *[\ \"]v"$version".* ]]
}

if [ -x "$folder/kubectl" ] && is_version "$folder/kubectl"; then exit 0; fi

if ! debian_fetch "$suite" "$folder/apt" download "$package"; then
  on_path=$(command -v kubectl || true)
  [ -n "$on_path" ] && is_version "$on_path" || fail "no kubectl $version: $debian_why." \
    "Put one of that version on the PATH, or set TAFFRAIL_KUBECTL_${version//./_} to its path."
  mkdir -p "$folder"
  ln -sf "$on_path" "$folder/kubectl"
  exit 0
fi
mv "$folder/apt/unpacked/usr/bin/kubectl" "$folder/kubectl"
rm -rf "$folder/apt"
is_version "$folder/kubectl" || fail "the $package of $suite is not of version $version:" \
  "$("$folder/kubectl" version --client 2>&1 | head -n 1)"
