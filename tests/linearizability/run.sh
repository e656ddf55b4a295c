#!/usr/bin/env bash
# Builds the check of histories, tests its model, and runs it: see main.go for the flags.
#
#     run.sh [FLAG...]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../.." && pwd)/target/linearizability
readonly here out

cd "$here"
# A registry may fail once without being down.
for _ in 1 2 3; do
    go mod download && break
done
go vet ./...
go test ./... >&2
go build -o "$out/linearizability" .
cd "$here/../.."
exec "$out/linearizability" "$@"
