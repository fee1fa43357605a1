#!/usr/bin/env bash
# Where CI is set: Debian's Chromium and its driver for the tests of the page, if they are not there and
# can be installed. Writes 1 when a missing browser shall be a failure (FARPOINT_BROWSER_TESTS).
set -euo pipefail
is_there() { command -v chromium && command -v chromedriver; } > /dev/null
install() {
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=60 chromium chromium-driver
}
if [ -n "${CI:-}" ] && ! is_there; then
  export DEBIAN_FRONTEND=noninteractive
  export -f install
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "No Chromium, and no way to install it: tests of the page are skipped." >&2
  elif ! said=$(timeout 240 bash -ec install 2>&1); then
    echo "No Chromium: tests of the page are skipped. apt-get: ${said##*$'\n'}" >&2
  fi
fi
if [ -n "${CI:-}" ] && is_there; then echo 1; else echo "${FARPOINT_BROWSER_TESTS:-}"; fi
