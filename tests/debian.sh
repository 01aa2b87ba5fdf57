# Debian's packages without root and without touching the system; sourced by the fetch scripts.
# The mirror and the keys come from the machine's own apt sources.

# debian_fetch SUITE FOLDER download|install PACKAGE...: leaves what the packages hold in FOLDER/unpacked, with all
# they depend on for `install`. Answers 1, and says why in $debian_why, when that can't be done here.
debian_fetch() {
  local suite=$1 work=$2 how=$3 tool sources mirror keys attempt archive
  shift 3
  for tool in apt-get dpkg; do
    command -v "$tool" > /dev/null || { debian_why="this machine has no $tool to fetch Debian's $* with"; return 1; }
  done
  # The first Debian mirror of the machine's sources, deb822 or one-line style; and what it is signed by.
  sources=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true)
  mirror=$(grep -Eo 'https?://[^ ]+/debian/?( |$)' <<< "$sources" | tr -d ' ' | head -n 1 || true)
  [ -n "$mirror" ] || { debian_why="this machine's apt sources name no mirror of Debian"; return 1; }
  keys=$(awk '/^Signed-By:/ && /debian/ { print $2; exit }' <<< "$sources")
  [ -n "$keys" ] || keys=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -e "$keys" ] || { debian_why="this machine has no keys of Debian's archive ($keys)"; return 1; }

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
  local apt=(
    -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache"
    -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources"
    -o Debug::NoLocking=1 -o Acquire::Retries=5 -o Acquire::Languages=none
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o APT::Sandbox::User="$(id -un)"
  )
  local get=(download "$@")
  [ "$how" = download ] || get=(--download-only --no-install-recommends -y install "$@")
  echo "fetching $* of $suite from $mirror"
  for attempt in 1 2 3 4; do
    if apt-get "${apt[@]}" -qq update && (cd "$work/cache/archives" && apt-get "${apt[@]}" -qq "${get[@]}" > /dev/null); then
      for archive in "$work"/cache/archives/*.deb; do dpkg -x "$archive" "$work/unpacked"; done
      rm -rf "$work/cache" "$work/lists"
      return 0
    fi
    sleep $((attempt * 5))
  done
  debian_why="Debian's mirror $mirror doesn't answer for $suite"
  return 1
}
