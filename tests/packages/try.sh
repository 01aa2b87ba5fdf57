#!/usr/bin/env bash
# Tries what tools/package/package.py has made in a folder: unpacks each package, and has its program run a server and
# a command. Programs for another processor run where qemu emulates it.
#   tests/packages/try.sh [FOLDER]     target/packages by default
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/../.."

folder=$(realpath "${1:-target/packages}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0

try() { # name program...: the program runs a server, and itself as the command
  local name=$1
  shift
  if "$@" test -- ${inner:-"$1"} version > "$work/said" 2>&1 && grep -q '^API .*Kubernetes' "$work/said"; then
    echo "try.sh: $name works"
    tried=$((tried + 1))
  else
    cat "$work/said" >&2
    echo "try.sh: $name does not work" >&2
    exit 1
  fi
}

own=$(uname -m)
(cd "$folder" && sha256sum --check --strict --quiet SHA256SUMS)

for archive in "$folder"/taffrail-*-"$own"-*.tar.gz; do
  mkdir "$work/archive"
  tar -xf "$archive" -C "$work/archive"
  try "$(basename "$archive")" "$work"/archive/*/bin/taffrail
done

for package in "$folder"/taffrail_*.deb; do
  mkdir -p "$work/deb"
  (cd "$work/deb" && ar x "$package" && tar -xf data.tar.xz)
  # Only one of the packages is for this machine; the others show that they are not.
  if [ "$("$work/deb/usr/bin/taffrail" version 2> /dev/null | grep -c '^taffrail')" = 1 ]; then
    try "$(basename "$package")" "$work/deb/usr/bin/taffrail"
  fi
  rm -rf "$work/deb"
done

for wheel in "$folder"/taffrail-*"$own".whl; do
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-index --no-deps --target "$work/wheel" "$wheel"
  try "$(basename "$wheel")" "$work/wheel/bin/taffrail"
done

image=$(find "$folder" -maxdepth 1 -name 'taffrail-*-oci')
if [ -n "$image" ]; then
  mkdir "$work/image"
  layer=$(OCI=$image OWN=$own python3 - <<'PYTHON'
import json, os
folder, own = os.environ["OCI"], {"x86_64": "amd64", "aarch64": "arm64"}[os.environ["OWN"]]
def blob(descriptor):
    return os.path.join(folder, "blobs", *descriptor["digest"].split(":"))
with open(os.path.join(folder, "index.json")) as file:
    document = json.load(file)
while "layers" not in document:
    fit = [one for one in document["manifests"] if one.get("platform", {}).get("architecture", own) == own]
    with open(blob(fit[0])) as file:
        document = json.load(file)
print(blob(document["layers"][0]))
PYTHON
  )
  tar -xf "$layer" -C "$work/image"
  # It has no shell and no libraries.
  inner=/usr/local/bin/taffrail try "$(basename "$image")" unshare --map-root-user chroot "$work/image" /usr/local/bin/taffrail
fi

for program in "$folder"/binaries/taffrail-*; do
  processor=$(basename "$program" | cut -d- -f2)
  [ "$processor" != "$own" ] || continue
  emulator=$(command -v "qemu-$processor-static" || command -v "qemu-$processor" || true)
  if [ -z "$emulator" ]; then
    echo "try.sh: $(basename "$program") NOT TRIED: this machine has no qemu-$processor"
  else
    chmod +x "$program"
    inner="$emulator $program" try "$(basename "$program")" "$emulator" "$program"
  fi
done
echo "try.sh: $tried packages and programs work"
