#!/usr/bin/env bash
# The fast tests under each Python that the package claims and the machine has, one after the
# other, each in an environment of its own.
#
#     tools/test_pythons.sh [PYTHON…]     (python3.11 python3.12 python3.13 without one)
#
# TESTS names the tests, all of them without it.
set -euo pipefail
cd "$(dirname "$0")/.."

# pyenv hides the versions that nobody has chosen.
if command -v pyenv >/dev/null; then
  PYENV_VERSION=$(pyenv versions --bare | paste -sd:)
  export PYENV_VERSION
fi
[ $# -gt 0 ] || set -- python3.11 python3.12 python3.13
for python in "$@"; do
  if ! version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); then
    echo "$python is not on this machine"
    continue
  fi
  environment=build/python-$version
  [ -d "$environment" ] || "$python" -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,ray]'
  echo "Python $version"
  # The words of TESTS are arguments of their own.
  # shellcheck disable=SC2086
  "$environment/bin/python" -m pytest -m "not slow" -n "${WORKERS:-2}" --dist worksteal ${TESTS:-}
done
