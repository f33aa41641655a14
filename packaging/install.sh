#!/bin/sh
# Installs Longhaul @VERSION@ for one user, without a compiler and without root.
#
#   sh install.sh                        into ~/.local
#   sh install.sh --prefix /usr/local    elsewhere
#
# It downloads two files, the archive and SHA256SUMS, and unpacks nothing whose sum is wrong.
set -eu

VERSION='@VERSION@'
# The folder with the archives. A copy of it on another server is named by LONGHAUL_DOWNLOAD.
DOWNLOAD=${LONGHAUL_DOWNLOAD:-'@DOWNLOAD@'}

say() { printf '%s\n' "$*"; }
fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

prefix=
while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -gt 1 ] || fail '--prefix needs a folder'
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    -h | --help)
        say 'usage: sh install.sh [--prefix DIR]'
        say "Installs Longhaul $VERSION into DIR, by default ~/.local."
        exit 0
        ;;
    *) fail "unknown option $1; there is --prefix DIR" ;;
    esac
    shift
done
if [ -z "$prefix" ]; then
    [ -n "${HOME:-}" ] || fail 'HOME is not set: give --prefix DIR'
    prefix=$HOME/.local
fi
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac

machine=$(uname -m)
[ "$machine" != arm64 ] || machine=aarch64
libc=gnu
if ldd --version 2>&1 | grep -qi musl; then libc=musl; fi
target="$machine-unknown-linux-$libc"
[ "$(uname -s)" = Linux ] || target="$machine on $(uname -s)"

if command -v curl >/dev/null; then
    fetch() { curl --fail --silent --show-error --location --output "$2" "$1"; }
elif command -v wget >/dev/null; then
    fetch() { wget --quiet --output-document="$2" "$1"; }
else
    fail 'curl or wget is needed'
fi
if command -v sha256sum >/dev/null; then
    sum() { sha256sum "$1" | cut -d ' ' -f 1; }
elif command -v shasum >/dev/null; then
    sum() { shasum -a 256 "$1" | cut -d ' ' -f 1; }
else
    fail 'sha256sum or shasum is needed'
fi
command -v xz >/dev/null || fail 'xz is needed, for example from the package xz-utils'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

name=longhaul-$VERSION-$target
fetch "$DOWNLOAD/SHA256SUMS" "$work/SHA256SUMS" || fail "$DOWNLOAD/SHA256SUMS cannot be downloaded"
expected=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$name\.tar\.xz\$/\1/p" "$work/SHA256SUMS")
[ -n "$expected" ] || fail "there is no build for this machine ($target); with Rust: cargo install --path crates/cli in a checkout"
fetch "$DOWNLOAD/$name.tar.xz" "$work/archive" || fail "$DOWNLOAD/$name.tar.xz cannot be downloaded"
actual=$(sum "$work/archive")
[ "$actual" = "$expected" ] || fail "the sum of $name.tar.xz is $actual and not $expected; nothing is installed"

xz --decompress --stdout "$work/archive" | tar -x -f - -C "$work"
"$work/$name/bin/longhaul" --version >"$work/version" || fail "the program does not start on this machine; nothing is installed"

record=share/longhaul/files
mkdir -p "$prefix"
# What an older release has and this one does not.
if [ -f "$prefix/$record" ]; then
    grep -Fxv -f "$work/$name/$record" "$prefix/$record" | while IFS= read -r file; do
        rm -f "${prefix:?}/$file"
    done
fi
while IFS= read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    # Beside it and renamed: a program that runs cannot be written to.
    cp "$work/$name/$file" "$prefix/$file.new"
    mv -f "$prefix/$file.new" "$prefix/$file"
done <"$work/$name/$record"

say "$(cat "$work/version") is installed: $prefix/bin/longhaul"
say "  manual pages and completions   $prefix/share"
say "  an example to serve            $prefix/share/doc/longhaul/examples/quickstart.toml"
say "  to uninstall                   sh '$prefix/share/longhaul/uninstall.sh'"
case :${PATH:-}: in
*":$prefix/bin:"*) ;;
*) say "$prefix/bin is not in PATH. For this shell: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
