#!/bin/sh
# Installs from Debian's packages what the full tests need. The tests start servers of their own, so no
# daemon is started here, and none that wasn't there before is left to start with the machine.
set -eu

if ! command -v apt-get >/dev/null 2>&1; then
    echo "make services knows Debian and Ubuntu only; elsewhere install MariaDB, Redis, PHP with curl and Chromium by hand" >&2
    exit 1
fi

missing=
for package in mariadb-server redis-server php-cli php-curl chromium; do
    dpkg-query --show --showformat '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
        missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "services: all installed"
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "make services installs$missing and needs root: sudo make services" >&2
    exit 1
fi

# invoke-rc.d asks this file before it starts a daemon; 101 means no. One that exists already is the
# machine's own policy and stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt-get -o DPkg::Lock::Timeout=300 --quiet --quiet update
# shellcheck disable=SC2086  # a list of words
apt-get -o DPkg::Lock::Timeout=300 --quiet --yes --no-install-recommends install $missing </dev/null

for package in $missing; do
    case $package in
    mariadb-server) unit=mariadb ;;
    redis-server) unit=redis-server ;;
    *) continue ;;
    esac
    if command -v systemctl >/dev/null 2>&1; then
        systemctl --quiet disable "$unit" || true
    fi
done
