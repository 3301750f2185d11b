#!/bin/sh
# What action.yml runs: measure, decide, compare with earlier runs, write the summary, comment. Inputs are variables.
# Ends with the first of: the run's failure, 1 (no-go or regression), 6 (undecided, where that fails).
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

set -- run "$SUITE" --target "$TARGET" --out "$RESULTS" --yes
while IFS= read -r line; do
    [ -z "$line" ] || set -- "$@" --volume "$line"
done <<EOF
$VOLUMES
EOF
while IFS= read -r line; do
    [ -z "$line" ] || set -- "$@" --set "$line"
done <<EOF
$SETTINGS
EOF

mkdir -p "$RESULTS"
ls -1 "$RESULTS" >"$work/before"
code=0
"$VOLBENCH" "$@" || code=$?
[ "$code" != 6 ] || code=0 # without a verdict: a policy or the regressions decide
run=$(ls -1 "$RESULTS" | grep -vxFf "$work/before" | tail -n 1) || run=
[ -n "$run" ] || exit "${code:-5}"
[ "$code" = 0 ] || [ -f "$RESULTS/$run/report.json" ] || exit "$code"

decision= gate_code=0
if [ -n "$POLICY" ]; then
    "$VOLBENCH" gate "$RESULTS/$run" --policy "$POLICY" --format md >"$work/gate.md" || gate_code=$?
    case $gate_code in
    0) decision=go ;;
    1) decision=no-go ;;
    6) decision=undecided ;;
    *) exit "$gate_code" ;;
    esac
fi

"$VOLBENCH" site "$RESULTS" --out "$SITE" --copy-reports >"$work/site.txt"
cat "$work/site.txt"
regressions=$(grep -c '^regression: ' "$work/site.txt") || :

{
    python3 -I -c 'import json, sys; print("### volbench\n\n" + json.load(open(sys.argv[1]))["summary"]["sentence"] + "\n")' \
        "$RESULTS/$run/report.json"
    sed -n 's/^regression: /- :warning: /p' "$work/site.txt"
    echo
    [ -z "$decision" ] || cat "$work/gate.md"
    for pair in "$SITE/pairs/"*"--$run.md"; do
        [ ! -f "$pair" ] || cat "$pair"
    done
} >"$work/comment.md"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$work/comment.md" >>"$GITHUB_STEP_SUMMARY"
[ -z "${GITHUB_OUTPUT:-}" ] || printf 'run=%s\ndecision=%s\nregressions=%s\n' "$RESULTS/$run" "$decision" "$regressions" >>"$GITHUB_OUTPUT"
if [ "$COMMENT" = true ] && [ -n "$PULL_REQUEST" ]; then
    # Away from the checkout, whose files may be the pull request's.
    (cd "$work" && gh pr comment "$PULL_REQUEST" --body-file "$work/comment.md") || echo "the pull request could not be commented" >&2
fi

[ "$code" = 0 ] || exit "$code"
[ "$decision" != no-go ] || exit 1
[ "$FAIL_ON_REGRESSION" != true ] || [ "$regressions" = 0 ] || exit 1
[ "$FAIL_ON_UNDECIDED" != true ] || [ "$decision" != undecided ] || exit 6
