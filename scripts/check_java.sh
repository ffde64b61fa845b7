#!/usr/bin/env bash
# Finds Java 17 or newer, which Spark needs; installs it where that is possible without asking.
set -euo pipefail

wanted=17

java_command() {
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        echo "$JAVA_HOME/bin/java"
    else
        command -v java || true
    fi
}

# The major version of Java, or 0 where there is none ("1.8.0" is 8).
java_major() {
    local java version
    java="$(java_command)"
    if [ -z "$java" ]; then
        echo 0
        return
    fi
    version="$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9._]*\).*/\1/p' | head -n 1)"
    version="${version#1.}"
    version="${version%%[._]*}"
    echo "${version:-0}"
}

install_java() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true
    local package
    for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
        if apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1; then
            return 0
        fi
    done
    return 1
}

if [ "$(java_major)" -ge "$wanted" ]; then
    exit 0
fi
echo "Java $wanted or newer was not found; trying to install it." >&2
if install_java && [ "$(java_major)" -ge "$wanted" ]; then
    exit 0
fi
echo "LivingDB runs its pipeline on Spark, which needs Java $wanted or newer: install a JRE" \
    "(on Debian or Ubuntu the package openjdk-17-jre-headless) or point JAVA_HOME at one." >&2
exit 1
