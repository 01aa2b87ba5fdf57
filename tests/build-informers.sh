#!/usr/bin/env bash
# Build the clients of the real client-go (tests/informers) with Debian's Go and client-go, without root:
#   tests/build-informers.sh FOLDER
# Leaves FOLDER/informers; does nothing when it is there and of these sources. About two minutes the first time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/debian.sh"

folder=$1
suite=forky # client-go 0.36
sources=$(cat "$here"/informers/* "$here/build-informers.sh" | sha256sum | cut -d' ' -f1)
if [ -x "$folder/informers" ] && [ "$(cat "$folder/sources" 2>/dev/null)" = "$sources" ]; then exit 0; fi

mkdir -p "$folder"
if ! debian_fetch "$suite" "$folder/apt" install golang-go golang-k8s-client-go-dev; then
  echo "build-informers: no client-go: $debian_why. Set TAFFRAIL_INFORMERS to a build of tests/informers." >&2
  exit 1
fi
root=$folder/apt/unpacked
mkdir -p "$folder/go/src/informers"
cp "$here"/informers/* "$folder/go/src/informers/"
echo "building tests/informers with client-go of $suite"
goroot=$(echo "$root"/usr/lib/go-1.*) # the suite's own version of Go
env GO111MODULE=off CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS= GOROOT="$goroot" \
  GOPATH="$folder/go:$root/usr/share/gocode" GOCACHE="$folder/go/cache" \
  "$goroot/bin/go" build -o "$folder/informers" informers
rm -rf "$folder/apt" "$folder/go"
echo "$sources" > "$folder/sources"
