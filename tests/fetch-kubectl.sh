#!/usr/bin/env bash
# Fetch the kubectl of one Debian suite into a folder, without root and without touching the system:
#   tests/fetch-kubectl.sh SUITE PACKAGE VERSION FOLDER      (bookworm kubernetes-client 1.20 ~/.cache/...)
# Leaves FOLDER/kubectl, checked to be of VERSION (major.minor); does nothing when it is there.
# The mirror and the keys come from the machine's own apt sources.
set -euo pipefail

suite=$1 package=$2 version=$3 folder=$4

fail() { echo "fetch-kubectl: $*" >&2; exit 1; }
is_version() { # binary: whether it is the kubectl asked for
  local says
  says=$("$1" version --client 2>/dev/null) || return 1
  [[ $says == *[\ \"]v"$version".* ]]
}

if [ -x "$folder/kubectl" ] && is_version "$folder/kubectl"; then exit 0; fi

on_path=$(command -v kubectl || true)
take_from_path() { # why
  [ -n "$on_path" ] && is_version "$on_path" || fail "no kubectl $version: $1." \
    "Put one of that version on the PATH, or set TAFFRAIL_KUBECTL_${version//./_} to its path."
  mkdir -p "$folder"
  ln -sf "$on_path" "$folder/kubectl"
  exit 0
}
for tool in apt-get dpkg; do
  command -v "$tool" > /dev/null || take_from_path "this machine has no $tool to fetch Debian's package $package with"
done

# The first Debian mirror of the machine's sources, deb822 or one-line style; and what it is signed by.
sources=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true)
mirror=$(grep -Eo 'https?://[^ ]+/debian/?( |$)' <<< "$sources" | tr -d ' ' | head -n 1 || true)
mirror=${mirror:-http://deb.debian.org/debian}
keys=$(awk '/^Signed-By:/ && /debian/ { print $2; exit }' <<< "$sources")
[ -n "$keys" ] || keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keys" ] || take_from_path "this machine has no keys of Debian's archive ($keys)"

work=$folder/apt
rm -rf "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/sources" "$work/unpacked"
: > "$work/status"
cat > "$work/sources/$suite.sources" <<SOURCES
Types: deb
URIs: $mirror
Suites: $suite
Components: main
Signed-By: $keys
SOURCES
apt=(
  -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache"
  -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources"
  -o Debug::NoLocking=1 -o Acquire::Retries=5 -o Acquire::Languages=none
  -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
  -o APT::Sandbox::User="$(id -un)"
)
echo "fetching kubectl $version: package $package of $suite from $mirror"
for attempt in 1 2 3 4; do
  if apt-get "${apt[@]}" -qq update && (cd "$work" && apt-get "${apt[@]}" -qq download "$package"); then break; fi
  [ "$attempt" -lt 4 ] || take_from_path "Debian's mirror $mirror doesn't answer for $suite"
  sleep $((attempt * 5))
done
dpkg -x "$work"/"$package"_*.deb "$work/unpacked"
mv "$work/unpacked/usr/bin/kubectl" "$folder/kubectl"
rm -rf "$work"
is_version "$folder/kubectl" || fail "the $package of $suite is not of version $version:" \
  "$("$folder/kubectl" version --client 2>&1 | head -n 1)"
