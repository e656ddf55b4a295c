#!/usr/bin/env bash
# Unmodified memcached clients against the server at HOST:PORT, which they empty.
#
#     run.sh [--self-test] HOST:PORT [CLIENT...]
#
# Installs what a client lacks, runs each one, prints a table and leaves with 1 if one failed.
# With --self-test each client instead runs behind a proxy that breaks the server's word
# (damage.py), and fails if it notices nothing. A client that cannot be installed for want of root
# is skipped aloud; with CI=true it fails.
set -euo pipefail

# The exporter comes first: until another client has used the server, its first look finds no item.
readonly CLIENTS=(
    exporter pymemcache pylibmc meta-memcache gomemcache rust-memcache php dalli memccapable
)
# Run only when named: the binary protocol is not everyone's.
readonly MORE_CLIENTS=(dalli-binary)
readonly EXPORTER_PACKAGE=github.com/prometheus/memcached_exporter/cmd/memcached_exporter
readonly INSTALL_TIMEOUT_S=600
# A registry may fail once without being down.
readonly INSTALL_ATTEMPTS_MAX=3
readonly RUN_TIMEOUT_S=60

here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../.." && pwd)/target/clients
readonly here out
readonly python=$out/venv/bin/python dalli=$out/dalli/lib

main() {
    local self_test=no
    if [[ ${1:-} == --self-test ]]; then
        self_test=yes
        shift
    fi
    [[ ${1:-} == *:* ]] || usage
    local address=$1 client
    shift
    (($#)) || set -- "${CLIENTS[@]}"
    for client; do
        [[ " ${CLIENTS[*]} ${MORE_CLIENTS[*]} " == *" $client "* ]] || usage
    done
    answers "$address" || exit 2
    # A cell of a ring counts what it executes, whoever has asked, so the checks expect no count.
    RING=$(is_of_ring "$address" && echo yes || true)
    export RING
    mkdir -p "$out/logs"

    passed=0 failed=0 skipped=0
    row CLIENT VERSION CHECKS SECONDS VERDICT
    for client; do
        if ! installed "$client"; then
            not_installed "$client"
        elif [[ $self_test == yes ]]; then
            damaged "$client" "$address"
        else
            sound "$client" "$address"
        fi
    done
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0))
}

usage() {
    echo "usage: run.sh [--self-test] HOST:PORT [CLIENT...]" >&2
    echo "clients: ${CLIENTS[*]}; only when named: ${MORE_CLIENTS[*]}" >&2
    exit 2
}

answers() {
    local host=${1%:*} port=${1##*:}
    # shellcheck disable=SC2016 # the names are for the inner shell to expand
    timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$host" "$port" 2>/dev/null && return
    echo "no server answers at $1: start one first, or give another HOST:PORT" >&2
    return 1
}

is_of_ring() {
    local host=${1%:*} port=${1##*:}
    # shellcheck disable=SC2016 # the names are for the inner shell to expand
    timeout 5 bash -c '
        exec 3<>"/dev/tcp/$0/$1"
        printf "stats ring\r\n" >&3
        read -r line <&3
        [[ $line == "STAT ring "* ]]' "$host" "$port" 2>/dev/null
}

# --- one client, one row -------------------------------------------------------------------------

sound() {
    local client=$1 address=$2 log=$out/logs/$1.log start=$EPOCHREALTIME checks
    if ! client_runs "$client" "$address" >"$log" 2>&1; then
        verdict "$client" - "$start" FAIL
        tail -n 20 "$log" | sed 's/^/    /'
    elif checks=$(grep -oP '^[1-9][0-9]*(?= checks passed$)' "$log"); then
        verdict "$client" "$checks" "$start" pass
    else
        verdict "$client" - "$start" FAIL
        echo "    it left with 0 but did not say how many checks passed"
    fi
}

damaged() {
    local client=$1 address=$2 kind kinds=(mark bulk status expiry) log proxy port start
    # It stores no mark, no large value and nothing for two seconds.
    [[ $client == memccapable ]] && kinds=(status)
    # It reads statistics only.
    [[ $client == exporter ]] && kinds=(twice)
    for kind in "${kinds[@]}"; do
        log=$out/logs/$client.$kind start=$EPOCHREALTIME
        exec {proxy}< <(exec python3 "$here/damage.py" "$kind" "$address")
        local proxy_pid=$!
        read -r -t 10 port <&"$proxy"
        if client_runs "$client" "127.0.0.1:$port" >"$log" 2>&1; then
            verdict "$client" "$kind" "$start" FAIL
            echo "    it did not notice the damage"
        else
            verdict "$client" "$kind" "$start" pass
            grep -v '^\s' "$log" | tail -n 1 | cut -c 1-110 | sed 's/^/    noticed: /'
        fi
        kill "$proxy_pid"
        exec {proxy}<&-
    done
}

installed() {
    local client=$1 log=$out/logs/$1.install attempt
    for ((attempt = 0; attempt < INSTALL_ATTEMPTS_MAX; attempt++)); do
        install_for "$client" >"$log" 2>&1 && return
        grep -q '^no root' "$log" && return 1
    done
    return 1
}

not_installed() {
    local client=$1
    if grep -q '^no root' "$out/logs/$client.install" && [[ ${CI:-} != true ]]; then
        row "$client" - - - SKIPPED
        skipped=$((skipped + 1))
    else
        row "$client" - - - FAIL
        failed=$((failed + 1))
    fi
    echo "    could not be installed:"
    tail -n 5 "$out/logs/$client.install" | sed 's/^/    /'
}

verdict() {
    local seconds
    seconds=$(awk -v a="$3" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    row "$1" "$(version_of "$1")" "$2" "$seconds" "$4"
    if [[ $4 == pass ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

row() {
    printf '%-14s %-36s %7s %8s  %s\n' "$@"
}

# --- what there is to know about each client -----------------------------------------------------

client_runs() {
    local address=$2 run=(timeout "$RUN_TIMEOUT_S")
    case $1 in
    exporter)
        EXPORTER=$out/memcached_exporter "${run[@]}" \
            python3 -B "$here/python/exporter_check.py" "$address"
        ;;
    pymemcache) "${run[@]}" "$python" -B "$here/python/pymemcache_check.py" "$address" ;;
    pylibmc) "${run[@]}" "$python" -B "$here/python/pylibmc_check.py" "$address" ;;
    meta-memcache) "${run[@]}" "$python" -B "$here/python/meta_memcache_check.py" "$address" ;;
    gomemcache) "${run[@]}" "$out/gomemcache" "$address" ;;
    rust-memcache) "${run[@]}" "$out/rust/debug/clients" "$address" ;;
    php) "${run[@]}" php "$here/php/memcached.php" "$address" ;;
    dalli) "${run[@]}" ruby -I "$dalli" "$here/ruby/dalli_check.rb" "$address" ;;
    dalli-binary)
        DALLI_PROTOCOL=binary "${run[@]}" ruby -I "$dalli" "$here/ruby/dalli_check.rb" "$address"
        ;;
    memccapable) "${run[@]}" "$here/memccapable.sh" "$address" ;;
    esac
}

version_of() {
    case $1 in
    exporter) awk '$1 ~ /memcached_exporter$/ { print $2 }' "$here/exporter/go.mod" ;;
    pymemcache | pylibmc | meta-memcache)
        "$python" -c "import importlib.metadata as m; print(m.version('$1'))"
        ;;
    gomemcache) awk '$2 ~ /gomemcache$/ { print $3 }' "$here/go/go.mod" ;;
    rust-memcache)
        awk '/^name = "memcache"$/ { getline; gsub(/"/, ""); print $3 }' "$here/rust/Cargo.lock"
        ;;
    php) php -r 'echo phpversion("memcached"), " on PHP ", PHP_VERSION;' ;;
    dalli | dalli-binary) ruby -I "$dalli" -e 'require "dalli"; print Dalli::VERSION' ;;
    memccapable) dpkg-query -W -f '${Version}' libmemcached-tools ;;
    esac
}

install_for() {
    case $1 in
    exporter)
        (cd "$here/exporter" && timeout "$INSTALL_TIMEOUT_S" go build \
            -o "$out/memcached_exporter" "$EXPORTER_PACKAGE")
        ;;
    pymemcache | pylibmc | meta-memcache) install_venv ;;
    gomemcache) (cd "$here/go" && timeout "$INSTALL_TIMEOUT_S" go build -o "$out/gomemcache" .) ;;
    rust-memcache)
        CARGO_TARGET_DIR=$out/rust timeout "$INSTALL_TIMEOUT_S" \
            cargo build --locked --manifest-path "$here/rust/Cargo.toml"
        ;;
    php) apt_installed php-cli php-memcached ;;
    dalli | dalli-binary) apt_installed ruby && install_dalli ;;
    memccapable) apt_installed libmemcached-tools ;;
    esac
}

install_venv() {
    cmp -s "$here/requirements.txt" "$out/venv/requirements.txt" && return
    # A Python may come without what makes environments: Debian's does.
    python3 -c 'import ensurepip' || apt_installed python3-venv || return
    python3 -m venv --clear "$out/venv" &&
        timeout "$INSTALL_TIMEOUT_S" "$python" -m pip install --disable-pip-version-check --quiet \
            --requirement "$here/requirements.txt" &&
        cp "$here/requirements.txt" "$out/venv/requirements.txt"
}

# Debian 12's dalli knows only the binary protocol, so the next release's, which is plain Ruby, is
# unpacked beside it: the archive is the one this machine uses, the lists and the package go to a
# folder of their own, and the system's packages stay as they are.
install_dalli() {
    [[ -e $dalli/dalli.rb ]] && return
    local apt=$out/apt archive apt_get
    # shellcheck disable=SC2016 # the name is for apt to expand
    archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
        'Label: Debian' 'Component: main' | head -n 1)
    if [[ -z $archive ]]; then
        echo "no Debian archive among this machine's package sources: run apt-get update" >&2
        return 1
    fi
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie main" \
        >"$apt/sources.list"
    apt_get=(timeout "$INSTALL_TIMEOUT_S" apt-get -qq -o APT::Sandbox::User=root
        -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=-
        -o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt/cache"
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
    rm -f "$apt"/*.deb
    "${apt_get[@]}" update && (cd "$apt" && "${apt_get[@]}" download ruby-dalli) &&
        dpkg-deb -x "$apt"/ruby-dalli_*.deb "$apt/unpacked" &&
        rm -rf "$out/dalli" &&
        cp -r "$apt"/unpacked/usr/share/rubygems-integration/all/gems/dalli-* "$out/dalli"
}

# Whether Debian's packages are there, after an attempt to install those that are not.
apt_installed() {
    local package missing=() sudo=()
    for package; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    if ((EUID)); then
        if ! sudo -n true 2>/dev/null; then
            echo "no root, so these must be installed by hand: apt-get install ${missing[*]}" >&2
            return 1
        fi
        sudo=(sudo -n)
    fi
    apt_get=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive timeout "$INSTALL_TIMEOUT_S"
        apt-get -qq -o DPkg::Lock::Timeout=300)
    "${apt_get[@]}" update || echo "the lists of packages may be old" >&2
    "${apt_get[@]}" install -y --no-install-recommends "${missing[@]}"
}

main "$@"
