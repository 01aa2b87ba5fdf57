#!/usr/bin/env bash
# Build the tests' programs in Go with Debian's Go and client-go, without root:
#   tests/build-go.sh FOLDER
# Leaves FOLDER/informers (tests/informers), and in FOLDER/fixtures the tests of fixtures/go, whose sources it also
# checks. Builds only the programs whose sources have changed. About two minutes the first time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/debian.sh"

folder=$1
suite=forky # client-go 0.36
fixtures=$here/../fixtures/go
of() { cat "$@" "$here/build-go.sh" | sha256sum | cut -d' ' -f1; }
informers_of=$(of "$here"/informers/*)
fixtures_of=$(of "$fixtures"/*.go "$fixtures"/example/*.go)
is_built() { [ -x "$folder/$1" ] && [ "$(cat "$folder/$1.sources" 2>/dev/null)" = "$2" ]; }

todo=()
is_built informers "$informers_of" || todo+=(informers)
is_built fixtures/example.test "$fixtures_of" || todo+=(fixtures)
if [ ${#todo[@]} -eq 0 ]; then exit 0; fi

mkdir -p "$folder/fixtures"
if ! debian_fetch "$suite" "$folder/apt" install golang-go golang-k8s-client-go-dev; then
  echo "build-go: no client-go: $debian_why. Set TAFFRAIL_INFORMERS to a build of tests/informers, and" \
    "TAFFRAIL_GO_FIXTURES to a folder with the test programs of fixtures/go, or to none." >&2
  exit 1
fi
root=$folder/apt/unpacked
goroot=$(echo "$root"/usr/lib/go-1.*) # the suite's own version of Go
export GO111MODULE=off CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS= GOROOT="$goroot" \
  GOPATH="$folder/go:$root/usr/share/gocode" GOCACHE="$folder/go/cache"
go() { "$goroot/bin/go" "$@"; }

informers() {
  mkdir -p "$folder/go/src/informers"
  cp "$here"/informers/* "$folder/go/src/informers/"
  echo "building tests/informers with client-go of $suite"
  go build -o "$folder/informers" informers
  echo "$informers_of" > "$folder/informers.sources"
}

fixtures() {
  local package=taffrail.dev/taffrailtest wrong
  wrong=$("$goroot/bin/gofmt" -l "$fixtures")
  [ -z "$wrong" ] || { echo "build-go: gofmt would change $wrong" >&2; return 1; }
  mkdir -p "$folder/go/src/taffrail.dev"
  cp -R "$fixtures" "$folder/go/src/$package"
  echo "building fixtures/go with client-go of $suite"
  go vet "$package" "$package/example"
  go test -c -o "$folder/fixtures/taffrailtest.test" "$package"
  go test -c -o "$folder/fixtures/example.test" "$package/example"
  echo "$fixtures_of" > "$folder/fixtures/example.test.sources"
}

rm -rf "$folder/go"
for part in "${todo[@]}"; do "$part"; done
rm -rf "$folder/apt" "$folder/go"
