#!/usr/bin/env bash
# Fetch the clients in Python that tests use (tests/clients/requirements.txt) from PyPI, without touching the system:
#   tests/fetch-python-clients.sh FOLDER
# Leaves the packages in FOLDER, for PYTHONPATH; does nothing when they are there, for this Python.
set -euo pipefail

folder=$1
requirements=$(dirname "$0")/clients/requirements.txt

python=$(python3 -c 'import sys; print(sys.version_info[:2])' || true)
wanted="$python $(cat "$requirements")"
if [ "$(cat "$folder/fetched" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

rm -rf "$folder"
mkdir -p "$folder"
if ! python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
  --target "$folder" --requirement "$requirements"; then
  echo "fetch-python-clients: no packages: it takes a python3 with pip, and PyPI or a mirror of it." \
    "Set TAFFRAIL_PYTHON_CLIENTS to a folder that has them, or to none." >&2
  exit 1
fi
# The wheel has the same 85 MB three times, for want of links.
rm -f "$folder/helm_python/lib/libhelm_c.so" "$folder/helm_python/lib/libhelm_c.so.0"
echo "$wanted" > "$folder/fetched"
