#!/usr/bin/env bash
# Three clients that find their servers by `config get cluster` follow a ring that changes.
#
#     run.sh VOLVOX PORT
#
# Installs the clients under target/clients/discovery if they are not there, starts a ring of
# VOLVOX on PORT and the three ports after it, and prints how many checks passed. Needs Node.js.
set -euo pipefail

readonly INSTALL_TIMEOUT_S=600 RUN_TIMEOUT_S=240
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../../.." && pwd)/target/clients/discovery
readonly here out

[[ $# == 2 ]] || {
    echo "usage: run.sh VOLVOX PORT" >&2
    exit 2
}
mkdir -p "$out"
if ! cmp -s "$here/requirements.txt" "$out/requirements.txt"; then
    # Debian's Python comes without what makes environments.
    python3 -c 'import ensurepip' || {
        echo "python3-venv is missing: apt-get install python3-venv" >&2
        exit 1
    }
    python3 -m venv --clear "$out/venv"
    timeout "$INSTALL_TIMEOUT_S" "$out/venv/bin/python" -m pip install --quiet \
        --disable-pip-version-check --requirement "$here/requirements.txt"
    cp "$here/requirements.txt" "$out/requirements.txt"
fi
if ! cmp -s "$here/package-lock.json" "$out/package-lock.json" || [[ ! -d $out/node_modules ]]; then
    cp "$here/package.json" "$here/package-lock.json" "$out/"
    (cd "$out" && timeout "$INSTALL_TIMEOUT_S" npm ci --silent --no-audit --no-fund)
fi
NODE=$out exec timeout "$RUN_TIMEOUT_S" "$out/venv/bin/python" -B "$here/discovery_check.py" "$1" "$2"
