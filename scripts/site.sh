#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the site build/site/html from the pages in docs/ and the docstrings of the Python package. Sphinx, myst-parser and
# furo are installed into a virtual environment below the build folder. Use: site.sh [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath -m "${1:-build}")
site=$build/site
if [ ! -f "$build/lib/python/kerf/__init__.py" ]; then
  echo "site: $build/lib/python has no package kerf, whose docstrings are a page; build it first (docs/python.md)" >&2
  exit 1
fi
if [ ! -x "$site/venv/bin/sphinx-build" ]; then
  python3 -m venv "$site/venv"
  "$site/venv/bin/pip" install --quiet 'sphinx>=7' 'myst-parser>=3' furo 'nanobind-backend>=1.0' numpy
fi
rm -rf "$site/pages" "$site/html"
mkdir -p "$site/pages"
cp docs/*.md scripts/site/conf.py scripts/site/api.md "$site/pages/"
# The list of all pages is the first page; the sidebar needs it as a tree too.
{ printf '\n```{toctree}\n:hidden:\n\n'; (cd docs && ls ./*.md | sed 's|^./||; s|\.md$||' | grep -v '^README$'); printf 'api\n```\n'; } >>"$site/pages/README.md"
PYTHONPATH=$build/lib/python "$site/venv/bin/sphinx-build" -q -b html "$site/pages" "$site/html"
cp "$site/html/README.html" "$site/html/index.html"
echo "site: open $site/html/index.html"
