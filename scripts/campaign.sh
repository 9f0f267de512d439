#!/bin/sh
# campaign.sh PYTHON SEED COUNT SET...: runs every campaign whole and writes the results that are committed.
# SET: a folder of synthesised tasks. What was interrupted goes on where it was; the exit code is 1 where a bar is not met.
set -u
python=$1 seed=$2 count=$3
shift 3
results=tests/adversary/results
DEMO=.assay/demo-tasks-0-24
failed=0
tasks=""
for set in "$@"; do
    if [ -d "$set" ]; then
        tasks="$tasks $(echo "$set"/*-*/)"
    else
        echo "no synthesised tasks in $set: make them with 'make demo' or 'assay synth repository'" >&2
    fi
done
run() {
    out=$results/$1.json
    shift
    "$python" -m tests.adversary --seed "$seed" --out "$out" "$@" || failed=1
}
# shellcheck disable=SC2086  # one word a task
{
    run campaign --scripts --layers --count "$count" --demo $tasks
    run honest --honest --demo $tasks
    [ -z "$tasks" ] || run right --right $tasks
}
"$python" -m tests.adversary.table
"$python" -m tests.holes || failed=1
"$python" -m tests.synthesis.services.campaign || failed=1
"$python" -m tests.synthesis.sites.campaign || failed=1
"$python" -m tests.simulation --seeds 20 --out tests/simulation/results.json || failed=1
"$python" -m benchmarks.cluster --soak-s "${SOAK_S:-3600}" --into benchmarks/campaign || failed=1
# Experiments whose results are committed; a bar that is missed is a result. Their stores stay, so that they can be resumed.
record() {
    name=$1 module=$2
    shift 2
    "$python" -m "experiments.$module" "$@" --record --store ".experiments/$name" || failed=1
}
record small-model-prompts small_model prompts
record small-model-memory small_model memory
record prompt-null prompt_null
record team-credit team_credit
record team-credit team_credit --fresh
record entropy-search search
record entropy-budgets entropy_budgets
record failure-skills failure_skills
if [ -d "$DEMO" ]; then
    record refused-skills refused_skills "$DEMO"
    record refused-skills repair_tries  # of the attempts in that store
    record repair-evolution repair_evolution "$DEMO"
fi
"$python" -m experiments.pages
ASSAY_WHOLE_CAMPAIGNS=1 "$python" -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder || failed=1
exit $failed
