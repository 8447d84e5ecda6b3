#!/bin/sh
# Writes runtime.txt and test.txt: for every Python from 3.11 on and every platform at once, with the
# hash of each file the package index serves and without any address.
#   sh deploy/locks/lock.sh python3
set -eu
python=$1
cd "$(dirname "$0")/../.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools/venv"
"$tools/venv/bin/python" -m pip --quiet --disable-pip-version-check install uv

compile() {
    output=$1
    shift
    # --no-config and the emptied environment: what this machine adds to its index stays out of the locks.
    env -u UV_INDEX -u UV_DEFAULT_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS -u UV_CONSTRAINT \
        "$tools/venv/bin/uv" --no-config pip compile --quiet --upgrade \
        --universal --python-version 3.11 --fork-strategy fewest \
        --generate-hashes --no-emit-index-url --no-emit-find-links \
        --custom-compile-command "make lock" \
        --group build "$@" pyproject.toml --output-file "$output"
    if grep -n '://' "$output"; then
        echo "$output holds an address" >&2
        exit 1
    fi
}

compile deploy/locks/runtime.txt --extra site
compile deploy/locks/test.txt --extra site --extra test --constraint deploy/locks/runtime.txt
echo "written: deploy/locks/runtime.txt, deploy/locks/test.txt"
