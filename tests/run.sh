#!/usr/bin/env bash
# Run every test, on any machine with Rust and a C compiler:
#   tests/run.sh                     what a change must pass
#   tests/run.sh --long              the same with many more rounds of crashes, kills, updates and schedules
#   tests/run.sh -- blackbox kill    further words go to the test runner (here: filters)
# Fetches the kubectls, the etcds, the Prometheus and the packages in Python (Helm, kopf, lightkube, kr8s, the
# official client) that tests use and builds programs with client-go, once, without root, into
# ${XDG_CACHE_HOME:-~/.cache}/taffrail. Programs of Kubernetes that no distribution has are taken from
# TAFFRAIL_KUBE_APISERVER, TAFFRAIL_CONTROLLER_MANAGER and TAFFRAIL_SCHEDULER, or from NAME/NAME there, or from NAME
# in the folder taffrail-reference beside it. The last lines name each program that is missing, and the number of
# tests that were not run.
#   --runner cargo|nextest           default: cargo-nextest where it is installed, else cargo test
set -euo pipefail
cd "$(dirname "$0")/.."

runner=
long=
while [ $# -gt 0 ]; do
  case $1 in
    --long) long=1 ;;
    --runner) runner=${2:?--runner needs cargo or nextest}; shift ;;
    --) shift; break ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "run.sh: unknown argument $1 (see --help)" >&2; exit 2 ;;
  esac
  shift
done

cache=${XDG_CACHE_HOME:-$HOME/.cache}/taffrail
kubectl() { # version suite package: fetch it and tell the tests where it is
  local name=TAFFRAIL_KUBECTL_${1//./_}
  if [ -z "${!name:-}" ]; then
    tests/fetch-kubectl.sh "$2" "$3" "$1" "$cache/kubectl-$1" || return 1
    export "$name=$cache/kubectl-$1/kubectl"
  fi
}
kubectl 1.20 bookworm kubernetes-client
kubectl 1.32 trixie kubectl
# Debian's unstable suite moves: where it has no 1.36 any more the tests of that version say so and pass.
kubectl 1.36 sid kubectl || export TAFFRAIL_KUBECTL_1_36=none

etcd() { # version suite: fetch it and tell the tests where it is
  local name=TAFFRAIL_ETCD_${1//./_}
  if [ -z "${!name:-}" ]; then
    tests/fetch-etcd.sh "$2" "$1" "$cache/etcd-$1"
    export "$name=$cache/etcd-$1/etcd"
  fi
}
etcd 3.4 bookworm
etcd 3.5 trixie
# Debian has no etcd 3.6: where TAFFRAIL_ETCD_3_6 names one, its tests run, else they say so and pass.
: "${TAFFRAIL_ETCD_3_6:=none}"
export TAFFRAIL_ETCD_3_6

if [ -z "${TAFFRAIL_PROMETHEUS:-}" ]; then
  tests/fetch-prometheus.sh trixie 2.53 "$cache/prometheus"
  export TAFFRAIL_PROMETHEUS=$cache/prometheus
fi

if [ -z "${TAFFRAIL_INFORMERS:-}" ] || [ -z "${TAFFRAIL_GO_FIXTURES:-}" ]; then
  tests/build-go.sh "$cache/informers"
  export TAFFRAIL_INFORMERS=${TAFFRAIL_INFORMERS:-$cache/informers/informers}
  export TAFFRAIL_GO_FIXTURES=${TAFFRAIL_GO_FIXTURES:-$cache/informers/fixtures}
fi

if [ -z "${TAFFRAIL_PYTHON_CLIENTS:-}" ]; then
  tests/fetch-python-clients.sh "$cache/python-clients"
  export TAFFRAIL_PYTHON_CLIENTS=$cache/python-clients
fi

# No distribution has these: their variables name them, or they are in the cache. Else their tests say so and pass.
kubernetes() { # variable program: tell the tests where it is
  local place
  for place in "$cache/$2" "$cache-reference"; do
    if [ -z "${!1:-}" ] && [ -x "$place/$2" ]; then export "$1=$place/$2"; fi
  done
  [ -n "${!1:-}" ] || export "$1=none"
}
kubernetes TAFFRAIL_KUBE_APISERVER kube-apiserver
kubernetes TAFFRAIL_CONTROLLER_MANAGER kube-controller-manager
kubernetes TAFFRAIL_SCHEDULER kube-scheduler

# Clients vanish in a network of the test's own, which some containers do not permit.
if [ -z "${TAFFRAIL_NETWORKS:-}" ]; then
  unshare --map-root-user --net ip link set lo up 2> /dev/null || TAFFRAIL_NETWORKS=none
  export TAFFRAIL_NETWORKS=${TAFFRAIL_NETWORKS:-own}
fi

if [ -n "$long" ]; then
  export TAFFRAIL_LONG=1
  export TAFFRAIL_KILL_ROUNDS=${TAFFRAIL_KILL_ROUNDS:-1000}
  export TAFFRAIL_MODEL_SECONDS=${TAFFRAIL_MODEL_SECONDS:-600}
  export TAFFRAIL_CYCLES=${TAFFRAIL_CYCLES:-1000}
  export TAFFRAIL_SCHEDULES=${TAFFRAIL_SCHEDULES:-50000}
fi

# Tests add a line for each program that is not there.
TAFFRAIL_NOT_RUN=$(mktemp)
export TAFFRAIL_NOT_RUN
report() {
  sort -u "$TAFFRAIL_NOT_RUN" | cut -f 1 | uniq -c | while read -r count program; do
    echo "run.sh: there is no $program: $count of its tests were not run"
  done
  rm -f "$TAFFRAIL_NOT_RUN"
}
trap report EXIT

if [ -z "$runner" ]; then
  if cargo nextest --version > /dev/null 2>&1; then runner=nextest; else runner=cargo; fi
fi
case $runner in
  nextest)
    cargo nextest run --workspace --no-fail-fast "$@"
    [ $# -gt 0 ] || cargo test --workspace --doc --quiet
    ;;
  # Most black-box tests wait more than they work.
  cargo) RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 2))} cargo test --workspace --no-fail-fast -- "$@" ;;
  *) echo "run.sh: --runner $runner: neither cargo nor nextest" >&2; exit 2 ;;
esac

# Its crates are in no other build, so it has a folder of its own.
if [ -n "$long" ] && [ $# -eq 0 ]; then
  cargo test --locked --manifest-path tools/second-opinion/Cargo.toml --target-dir target/second-opinion
fi

# What users install: built, unpacked and run. Cargo packs what is committed.
if [ -n "$long" ] && [ $# -eq 0 ]; then
  tools/package/package.py
  tests/packages/try.sh
  tools/package/package.py verify-crates
fi
