#!/usr/bin/env bash
# Where CI is set: Debian's Chromium with its driver, and promtool, for the tests that want them, if they are
# not there and can be installed. Writes 1 when one that is missing shall be a failure (REQUIRE_TEST_TOOLS).
set -euo pipefail
are_there() { command -v chromium && command -v chromedriver && command -v promtool; } > /dev/null
install() {
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=60 chromium chromium-driver prometheus
}
if [ -n "${CI:-}" ] && ! are_there; then
  export DEBIAN_FRONTEND=noninteractive
  export -f install
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "No Chromium or promtool, and no way to install them: their tests are skipped." >&2
  elif ! output=$(timeout 240 bash -ec install 2>&1); then
    echo "No Chromium or promtool: their tests are skipped. apt-get: ${output##*$'\n'}" >&2
  fi
fi
if [ -n "${CI:-}" ] && are_there; then echo 1; else echo "${REQUIRE_TEST_TOOLS:-}"; fi
