#!/usr/bin/env bash
# Checks the subjects of the commits that follow the one that brought the list of verbs: each begins with an
# imperative verb of that list and has at most 72 characters. Merges have their own subjects.
#
#   tests/commit-subjects.sh
#
# Commits on branches that were begun before the list came are left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

verbs=tests/fixtures/commit-verbs.txt
limit=72
# Characters are counted, and not bytes.
export LC_ALL=C.UTF-8

not_checked() {
  echo "commit subjects NOT CHECKED: $*"
  exit 0
}

command -v git > /dev/null || not_checked "there is no git"
top=$(git rev-parse --show-toplevel 2> /dev/null) || not_checked "there is no history here"
[ "$top" -ef . ] || not_checked "the history of $top is of something else"
[ "$(git rev-parse --is-shallow-repository)" = false ] || not_checked "the clone is shallow"
begin=$(git log --diff-filter=A --format=%H -- "$verbs" | tail -n 1)
[ -n "$begin" ] || not_checked "no commit has $verbs"

checked=0
wrong=0
while IFS=$'\t' read -r commit subject; do
  [ -n "$commit" ] || continue
  checked=$((checked + 1))
  first=${subject%%[ ,]*}
  if ! grep -qxF -- "$first" "$verbs"; then
    echo "$commit: $subject: \"$first\" is not in $verbs: begin with an imperative verb"
    wrong=$((wrong + 1))
  fi
  if [ "${#subject}" -gt "$limit" ]; then
    echo "$commit: $subject: ${#subject} characters, at most $limit"
    wrong=$((wrong + 1))
  fi
done <<< "$(git log --no-merges --ancestry-path --format='%h%x09%s' "$begin..HEAD")"

echo "commit subjects: $checked checked, $wrong wrong"
[ "$wrong" -eq 0 ]
