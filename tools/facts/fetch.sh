#!/usr/bin/env bash
# Fetch the Go sources that tools/facts/make.py reads, from Debian's packages, without root:
#   tools/facts/fetch.sh FOLDER
#   tools/facts/make.py FOLDER/src
# The facts are of Kubernetes 1.36. Debian's unstable suite moves: the script prints the versions that it got.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../tests/debian.sh"

folder=${1:?usage: fetch.sh FOLDER}
packages=(golang-k8s-api-dev golang-k8s-apimachinery-dev golang-k8s-apiextensions-apiserver-dev)
if ! debian_fetch sid "$folder/apt" download "${packages[@]}"; then
  echo "fetch: no sources: $debian_why" >&2
  exit 1
fi
mkdir -p "$folder/src"
cp -r "$folder/apt/unpacked/usr/share/gocode/src/k8s.io" "$folder/src/"
for package in "${packages[@]}"; do
  zcat "$folder/apt/unpacked/usr/share/doc/$package/changelog.Debian.gz" | sed -n 1p
done
rm -rf "$folder/apt"
