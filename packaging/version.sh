#!/bin/sh
# Prints the version: of the last tag (v1.2.3) and the commits since, or of the
# archive that this is; 0.0.0 with the commit where there is no tag.
set -eu
cd "$(dirname "$0")/.."
if [ -e .git ] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
	version=$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null) || {
		version=0.0.0-0-g$commit
		git diff --quiet HEAD -- || version=$version-dirty
	}
else
	version=$(cat packaging/archive) # git archive puts the version into it
	case $version in '$'* | '') version=0.0.0 ;; esac
fi
echo "${version#v}"
