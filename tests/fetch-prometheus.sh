#!/usr/bin/env bash
# Fetch the prometheus and promtool of one Debian suite into a folder, without root and without touching the system:
#   tests/fetch-prometheus.sh SUITE VERSION FOLDER      (trixie 2.53 ~/.cache/...)
# Leaves FOLDER/prometheus and FOLDER/promtool, checked to be of VERSION (major.minor); does nothing when they are
# there. For trixie and newer, where promtool is a package of its own.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

suite=$1 version=$2 folder=$3

fail() { echo "fetch-prometheus: $*" >&2; exit 1; }
is_version() { # binary: whether it is of the version asked for
  local says
  says=$("$1" --version 2>/dev/null) || return 1
  [[ $says == *", version $version."* ]]
}

if [ -x "$folder/prometheus" ] && is_version "$folder/prometheus" &&
  [ -x "$folder/promtool" ] && is_version "$folder/promtool"; then exit 0; fi

if ! debian_fetch "$suite" "$folder/apt" download prometheus promtool; then
  for tool in prometheus promtool; do
    on_path=$(command -v "$tool" || true)
    [ -n "$on_path" ] && is_version "$on_path" || fail "no $tool $version: $debian_why." \
      "Put one of that version on the PATH, or set TAFFRAIL_PROMETHEUS to the folder that holds both."
    mkdir -p "$folder"
    ln -sf "$on_path" "$folder/$tool"
  done
  exit 0
fi
for tool in prometheus promtool; do
  mv "$folder/apt/unpacked/usr/bin/$tool" "$folder/$tool"
done
rm -rf "$folder/apt"
for tool in prometheus promtool; do
  is_version "$folder/$tool" || fail "the $tool of $suite is not of version $version:" \
    "$("$folder/$tool" --version 2>&1 | head -n 1)"
done
