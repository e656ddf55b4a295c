#!/usr/bin/env bash
# memccapable's text cases against HOST:PORT. Empties the server.
#
# Passes if every case of memccapable.expected does: all that memcached itself passes. The two it
# fails, `ascii delete` and `ascii delete noreply`, want an error for a delete of five words; what
# they say is printed and decides nothing.
set -euo pipefail

readonly CASE_TIMEOUT_S=5
here=$(cd "$(dirname "$0")" && pwd)
address=${1:?usage: memccapable.sh HOST:PORT}
run=(memccapable -h "${address%:*}" -p "${address##*:}" -t "$CASE_TIMEOUT_S" -a)

# Unbuffered, or the verdicts on the error stream part from the names on the other one.
found=$(stdbuf -o0 "${run[@]}" 2>&1) || true

checks=0
while read -r name; do
    if ! grep -Eq "^$name +\[pass\]" <<<"$found"; then
        echo "$name: did not pass; all that was said:" >&2
        echo "$found" >&2
        exit 1
    fi
    checks=$((checks + 1))
done <"$here/memccapable.expected"

grep '^ascii delete' <<<"$found"
echo "$checks checks passed"
