#!/usr/bin/env bash
# Chromium for the tests of pages: Debian's, where it can be installed.
set -euo pipefail
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null; }
    exit 0
fi
echo "The tests of pages need Chromium: install the packages chromium and chromium-driver." >&2
