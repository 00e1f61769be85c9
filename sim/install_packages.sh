#!/usr/bin/env bash
# Installs the Debian packages that the build needs and that are missing. With the word "tests", also those that
# the tests, the benchmarks and the checks of style need. Says what it installs; does nothing when all is there.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config libsystemc-dev libboost-program-options-dev libhdf5-dev libspdlog-dev
          libtomlplusplus-dev libarchive-dev zlib1g-dev nlohmann-json3-dev)
if [[ "${1:-}" == tests ]]; then
  packages+=(libgtest-dev libbenchmark-dev clang-format valgrind xz-utils)
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install_packages.sh: this is no Debian system; the build needs what these packages hold: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ "$status" == ii* ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install_packages.sh: expected root or sudo to install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing with apt-get: ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
