# Sourced by the scripts in ops: what they need from the machine, installed only where it is absent.

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
note() { printf '    %s\n' "$*"; }
fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Plain text when nobody looks at a terminal.
if [ ! -t 1 ]; then say() { printf '==> %s\n' "$*"; }; fi

# The Debian packages: compiler side first, then what the tests and the demo run.
packages=(
    pkg-config libpq-dev libssl-dev libnghttp2-dev
    postgresql pgbouncer nghttp2-server
    ca-certificates tzdata git procps python3
)

require_swift() {
    if ! command -v swift >/dev/null 2>&1; then
        for directory in /opt/swift/usr/bin /usr/local/swift/usr/bin "$HOME/.local/share/swiftly/bin"; do
            if [ -x "$directory/swift" ]; then
                PATH="$directory:$PATH"
                export PATH
                break
            fi
        done
    fi
    command -v swift >/dev/null 2>&1 ||
        fail "no 'swift' on PATH. Install Swift 6.3 or newer for Debian 12 (https://www.swift.org/install/linux) and put its usr/bin on PATH."
    local version
    version=$(swift --version 2>/dev/null | sed -nE 's/.*Swift version ([0-9]+)\.([0-9]+).*/\1 \2/p' | head -n 1)
    # shellcheck disable=SC2086
    set -- $version
    if [ "${1:-0}" -lt 6 ] || { [ "$1" -eq 6 ] && [ "${2:-0}" -lt 3 ]; }; then
        fail "Swift 6.3 or newer is needed, but $(command -v swift) is version ${1:-unknown}.${2:-}."
    fi
}

install_missing_packages() {
    command -v dpkg-query >/dev/null 2>&1 ||
        fail "this is not a Debian system. Install by hand what these Debian packages hold: ${packages[*]}"
    local missing=() package
    for package in "${packages[@]}"; do
        # pkgconf provides pkg-config on newer systems, hence the question by command.
        if [ "$package" = pkg-config ] && command -v pkg-config >/dev/null 2>&1; then continue; fi
        if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            missing+=("$package")
        fi
    done
    if [ ${#missing[@]} -eq 0 ]; then return; fi
    say "Installing ${missing[*]}"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || fail "these packages are missing and need root: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -qq </dev/null || fail "apt-get update failed. Check the network and /etc/apt/sources.list."
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null \
        2> >(grep -v '^debconf: delaying package configuration' >&2) ||
        fail "apt-get could not install ${missing[*]}. Its message stands above."
}
