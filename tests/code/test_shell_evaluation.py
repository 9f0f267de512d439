"""Places where a shell script evaluates text that a judged program chose."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.code.shell import analysis, syntax
from assay.code.shell_evaluation import find_evaluations, find_folder_evaluations

PROGRAMS = ["/workspace/prog", "/workspace/ledger.py"]
REPORTED = [
    '[[ "$(prog 3)" -eq 7 ]] && score=1',
    "got=$(prog); [[ $got -ge 7 ]]",
    "got=`prog`; (( got == 7 ))",
    "got=`prog`; (( $got == 7 ))",
    "read -r got < out; let total=got+1",
    'read -r got < out; let "total = got + 1"',
    'check() { [[ $1 -eq 7 ]]; }; check "$(prog)"',
    "declare -i got=$(prog)",
    "local_sum() { local -i got; got=$(prog); }",
    'got=$(prog); echo "${table[$got]}"',
    'got=$(prog); echo "${table[got]}"',
    'got=$(prog); echo "${text:got}"',
    'got=$(prog); echo "${text:0:$got}"',
    "got=$(prog); echo $((got + 1)) ",
    "got=$(prog); echo $[got]",
    'got=$(prog); table["$got"]=1',
    "got=$(prog); for ((i = 0; i < got; i++)); do :; done",
    "for got in $(prog); do (( got > 3 )); done",
    "other=got; got=$(prog); (( other > 3 ))",
    'eval "$(prog)"',
    "got=$(prog); eval 'echo $got'",
    "prog | bash",
    "prog | sh -s",
    "bash <(prog)",
    "bash < /tmp/out",
    'bash <<< "$(prog)"',
    "prog > /tmp/cfg; bash /tmp/cfg",
    "prog > /tmp/cfg; . /tmp/cfg",
    "source <(prog)",
    "prog > out.sh; . ./out.sh",
    "prog > out.sh && source out.sh",
    "prog > /tmp/f; chmod +x /tmp/f; /tmp/f",
    'bash -c "echo $got $(prog)"',
    'got=$(prog); bash -c "$got"',
    "got=$(prog); bash -c '[[ $1 -eq 7 ]]' _ \"$got\"",
    "got=$(prog); export got; bash -c '[[ $got -eq 7 ]]'",
    "got=$(prog); $got",
    'got=$(prog); "$got" a',
    'got=$(prog); exec "$got"',
    "got=$(prog); command $got; builtin $got",
    'got=$(prog); "/tests/$got"',
    'got=$(prog); timeout 5 "$got"',
    "got=$(prog); [ $got = 7 ]",
    'got=$(prog); [ "$got" = 7 -o "$got" = 8 ]',
    'got=$(prog); [ -v "$got" ]; ',
    'got=$(prog); test -v "$got"',
    'got=$(prog); [[ -v "$got" ]]',
    "got=$(prog); [[ -v table[$got] ]]",
    "if test $(prog) = 7; then score=1; fi",
    'want=7; got=$(prog); [[ "$want" == $got ]]',
    "want=7; got=$(prog); [[ $want =~ $got ]]",
    "got=$(prog); case 7 in $got) score=1;; esac",
    'python3 -c "print($(prog) == 7)"',
    "got=$(prog); python3 -c 'assert '\"$got\"' == 7'",
    "got=$(prog)\npython3 - <<END\nassert $got == 7\nEND",
    "got=$(prog)\ncat <<END | python3 -\nassert $got == 7\nEND",
    "prog > /tmp/g.py; python3 /tmp/g.py",
    "prog > /tmp/g; python3 /tmp/g",
    "prog > json.py; python3 -c 'import json'",
    "python3 -c 'import sys; eval(sys.argv[1])' \"$(prog)\"",
    "prog | python3",
    'got=$(prog); perl -e "print $got"; node -e "$got"',
    'awk "BEGIN { exit !($(prog) > 6) }"',
    "prog | awk '{ system($0) }'",
    "prog | awk '{ print | \"sh\" }'",
    "prog | awk '{ print > $1 }'",
    'got=$(prog); sed "s/x/$got/" /tests/in',
    "prog | sed 's/.*/&/e'",
    "prog | sed 'e'",
    'got=$(prog); jq ". == $got" out.json',
    'echo "$(prog) == 7" | bc',
    'echo "$(prog) 7 - p" | dc',
    "prog | xargs -I{} sh -c '{}'",
    "prog | xargs echo",
    "find . -name out -exec sh -c '. {}' ';'",
    'got=$(prog); declare "$got"; ',
    'got=$(prog); export "$got"',
    'got=$(prog); printf -v "$got" 7',
    'got=$(prog); printf "$got"',
    'got=$(prog); read "$got" < /tests/in',
    'got=$(prog); unset "$got"',
    'got=$(prog); echo "${!got}"',
    'got=$(prog); echo "${got@P}"',
    "declare -n ref=got; got=$(prog); echo $ref",
    'got=$(prog); trap "$got" EXIT',
    "got=$(prog); trap '[[ $got -eq 7 ]]' EXIT",
    "mapfile -C 'eval echo' -c 1 lines < out",
    "PATH=$(prog):$PATH; ls",
    "PS4='$(date)'; set -x; echo a",
    "export BASH_ENV=/tmp/out; bash /tests/a.sh",
    "BASH_ENV=/tmp/out bash /tests/a.sh",
    'env "$(prog)" ls',
    'env -S "$(prog)"',
    "shopt -s expand_aliases; alias x=y",
    "enable -f /tmp/out x",
    "coproc bash",
    "hash -p /tmp/out ls",
    'compgen -C "$(prog)"',
    "sqlite3 :memory: < out.sql",
    "make -f out; gcc out.c",
    "tar xf out.tar",
    'sort --compress-program="$(prog)" /tests/in',
    'got=$(prog); grep -q "$got" /tests/expected',
    'got=$(prog); cat "$got"',
    'got=$(prog); cd "$got"',
    'got=$(prog); echo 1 > "$got"',
    "prog > /workspace/ledger.py; python3 /workspace/ledger.py",
    "cp /tmp/out /tmp/x.sh",
    "ln -s /tmp/out /usr/bin/cmp",
    'run() { "$@"; }; run eval "$(prog)"',
    'run() { shift; "$@"; }; run 7 $(prog)',
    "mapfile -t rows < <(prog); (( rows[0] > 1 ))",
    "prog | while read -r n; do (( n > 1 )); done",
    "prog | { read -r n; [[ n -eq 1 ]]; }",
    "[[ $(prog) =~ (.*) ]]; (( BASH_REMATCH[1] > 2 ))",
    "set -- $(prog); (( $1 > 2 ))",
    'f() { echo "$(prog)"; }; (( $(f) > 2 ))',
    "f() { read -r x; (( x )); }; prog | f",
    ": ${n:=$(prog)}; (( n ))",
    'printf -v n %s "$(prog)"; (( n ))',
    "n=1; n+=$(prog); (( n ))",
    'wait -p "$(prog)"',
    'pytest "$(prog)"',
    "if then",
    'got=$(prog); declare -a rows="$got"',
    'rows=(1); got=$(prog); declare rows="$got"',
    'f() { local -A rows="$(prog)"; }',
    'mapfile -t rows < in; got=$(prog); readonly rows="$got"',
    'declare "x=$(prog)"',
    "got=$(prog); rows=([$got]=1)",
    "got=$(prog); unset 'rows[got]'",
    "got=$(prog); [[ -v rows[got] ]]",
    "got=$(prog); name='rows[got]'; echo ${!name}",
    "got=$(prog); read 'rows[got]' < /tests/in",
    "SECONDS=$(prog)",
    "exec < out; read -r n; (( n ))",
    "exec 3< out; read -r -u 3 n; (( n ))",
    "got=$(prog)\nbash <<END\necho `date`\n[ $got ]\nEND",
    "got=$(prog)\nx=$(cat <<END\n`prog`\nEND\n); (( x ))",
    'prog() { (( $1 )); }; prog "$(/workspace/prog)"',
    "env got=\"$(prog)\" bash -c '(( got ))'",
    "got=$(prog) bash -c '(( got ))'",
    "LD_PRELOAD=/tmp/out cat /tests/in",
    "PYTHONINSPECT=1 python3 -c 'print(7)' < out",
    'run() { while [ $# -gt 0 ]; do "$@"; shift; done; }; run prog eval',
    'run() { set -- "$(prog)"; "$@"; }; run prog',
    "prog > lib; . ./lib",
    "n=$(dd if=out); (( n ))",
    "n=$(cp out /dev/stdout); (( n ))",
    "n=$(grep -e -c out); (( n ))",
    "n=$(grep -ec out); (( n ))",
    "got=$(prog); n=$(declare -p got); (( n ))",
    "n=$(set | tail -n 1); (( n ))",
    "n=$(env | head -n 1); (( n ))",
    "n=$(ps ax); (( n ))",
    "n=$(date -f out 2>&1); (( n ))",
    "n=$(file out); (( n ))",
    "v=$(prog); w=v; x=w; (( x ))",
    "cat <(prog) | while read -r v; do (( v )); done",
    "prog > lib; bash <<'END' lib\nEND",
    "f() { read -r n; (( n )); } <<END\n$(prog)\nEND\nf",
    "cat <<END | bash\n$(prog)\nEND",
    'cat <<END && eval "$got"\nEND',
    "xargs < <(prog) timeout 5",
    "prog > lib; > /dev/null bash lib",
    "prog > lib; bash 2> /dev/null lib",
    "{ bash; } < out > /dev/null",
    "cat /tests/in | bash < out",
    "i=$(prog); rows=([i]=1)",
    'f() { shift; (( $1 )); }; f 1 "$(prog)"',
    "f() { (( $2 )); }; f $(prog) 3",
    'f() { (( $1 )); shift; [ $# = 0 ] || f "$@"; }; f 1 "$(prog)"',
    'f() { while [ $# -gt 0 ]; do (( $1 )); shift; done; }; f 1 "$(prog)"',
    'f() { set -- 1 "$(prog)"; (( $2 )); }; f 1 2',
    "prog | tee >(bash)",
    "prog > >(sh)",
    "opts=-n; declare $opts ref=got; got=$(prog); echo $ref",
    "pytest -c /tmp/out /tests/test_x.py",
]
"""Scripts that evaluate text, or of which the analysis cannot tell."""
ACCEPTED = [
    "score=0; score=$((score + 1)); ((score++)); (( score == 3 ))",
    'got=$(prog); [ "$got" -eq 7 ]',
    'got=$(prog); [[ "$got" == 7 ]]; [[ $got != "$want" ]]; [[ -n $got && $got =~ ^[0-9]+$ ]]',
    "[[ $? -eq 0 && $# -gt 1 ]]",
    "score=0; [ $score = 1 ]; [ $? -eq 0 ]; prog; rc=$?; if [ $rc -ne 0 ]; then exit 1; fi; exit $rc",
    'cd "$(dirname "$0")"; . ./lib.sh; prog',
    'source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"; . "${0%/*}/lib.sh"; . /tests/lib.sh',
    "start=$(date +%s); prog; took=$(( $(date +%s) - start )); [ $took -lt 5 ]",
    "n=$(prog | grep -c x || true); (( n == 3 )); m=$(grep -c x out || true); [ $m = 3 ]",
    "diff <(prog) /tests/expected; prog < /tests/in > out; cmp out /tests/expected",
    'got=$(prog); [ "$got" = "$(cat /tests/expected)" ]',
    '[ "$(prog "$1")" = "$(cat "${2:-$1}")!" ]',
    'python3 /tests/check.py "$(prog)"; python3 -c \'print(7)\' "$(prog)"; prog | python3 /tests/check.py',
    "python3 - \"$(prog)\" <<'END'\nimport sys\nassert sys.argv[1] == '7'\nEND",
    "got=$(prog); awk -v got=\"$got\" 'BEGIN { exit got != 7 }'; echo \"$got\" | awk '{ print $1 }'",
    "[[ $(prog | wc -l) -eq 7 ]]; lines=$(wc -l < out); [[ $lines -eq 7 ]]",
    "for n in 1 2 3; do (( n > 1 )); done; # (( got ))",
    'got=$(prog); echo "${got:-none}" "${got:0:3}" "${#got}" "${got%% *}" "${got//a/b}"',
    "bash /tests/more.sh; prog | tee out.txt; set -euo pipefail; . /tests/setup.sh",
    "cp -r . /tmp/copy; find . -name out",
    'HERE=$(cd "$(dirname "$0")" && pwd); for f in "$HERE"/cases/*.in; do prog < "$f" > o; '
    'cmp -s o "${f%.in}.out" || exit 1; done',
    'while read -r a b sum; do [ "$(prog $a $b)" = $sum ]; (( sum > 0 )); done < /tests/cases',
    "while read -r a b; do (( a > b )); done <<'END'\n3 2\nEND",
    'cat /tests/cases | while read -r a b; do [ "$(prog $a)" = $b ]; done',
    'check() { local want=$1; shift; got=$("$@"); [ "$got" = "$want" ]; }; check 7 python3 /workspace/ledger.py 3 4',
    'check() { [ "$(timeout 10 python3 /workspace/ledger.py "$@" 2> /dev/null)" = 7 ]; }; check "$(prog)"',
    'PROG="python3 /workspace/ledger.py"; got=$($PROG 3); CMD=(python3 /workspace/ledger.py); "${CMD[@]}" 4',
    "tmp=$(mktemp -d); trap 'rm -rf \"$tmp\"' EXIT; cd $tmp; prog; sh /workspace/prog a",
    'got=$(prog | tr -d "\\n" | sed -n "s/ *$//p;1p" | sort -u | head -n 1); case "$got" in 7|8*) ;; *) exit 1;; esac',
    'got=$(prog); echo "$got" | grep -qx 7; grep -qxF -- "$got" /tests/expected; grep -q -e "$got" /tests/expected',
    'expected=(a "b c"); for line in "${expected[@]}"; do prog "$line"; done; [ "${#expected[@]}" -eq 2 ]',
    'prog | { read -r first; [ "$first" = 7 ]; }; printf \'%s\\n\' "$(prog)" > /logs/verifier/log.txt',
    "assay-judge run -- sh -c 'cat in | tee out.txt' < /tests/in; cat out.txt; assay-judge read out.txt",
    "jq -e --arg got \"$(prog)\" '.want == $got' /tests/want.json; prog | jq -r .total",
    "PYTHONPATH=/workspace python3 -m pytest -q -rA /tests/test_x.py; LC_ALL=C sort -c out; export LANG=C",
    "bash -c 'prog | cmp - /tests/expected'; env -i MODE=fast /workspace/prog; nice -n 5 ./prog",
    'chmod +x /workspace/prog; mkdir -p /logs/verifier; kill -9 -1 2> /dev/null; sleep 1; rm -f "$tmp"',
    "declare -A seen; seen[a]=1; local_only() { local x y=3; readonly Z=4; }; local_only",
    'prog 2>/dev/null <<< "$(prog)"; prog 2>&1 | tail -n 3; if ! prog; then :; fi; time prog',
    'sum=$(md5sum < out); [ "$sum" = "$(cat /tests/sum)" ]; [ -f out ] && [ ! -L out ] || exit 1',
    "bash <<'END'\necho `date`\nEND\nexec > /logs/verifier/log.txt 2>&1; exec 3> /dev/null; echo hi >&3",
    "while read -r a b; do (( a > b )); done < <(cat /tests/cases); echo `date`",
    'run() { local dir=$1; shift; (cd "$dir" && timeout 5 "$@"); }; run /tmp prog "$(prog)"; run . cmp a b',
    'both() { run "${@:2}"; }; run() { "$@" 2> /dev/null; }; both 1 prog "$(prog)"; main() { prog; }; main "$@"',
    'prog 2> /dev/null "$(prog)"; grep -q 2> /dev/null x out; cmp > /dev/null out /tests/out',
    "python3 - <<'END'\nprint(7)\nEND\ncat - <<'END' | prog\n7\nEND",
    "until prog status | grep -q ready; do sleep 0.1; n=$((n + 1)); [ $n -lt 50 ] || break; done & wait $!",
]


@pytest.mark.parametrize("line", REPORTED)
def test_evaluated_text_is_reported(line: str):
    found = find_evaluations(f"#!/bin/bash\n{line}\n", PROGRAMS)
    assert found, line
    assert all(one.line >= 2 and one.reason for one in found)


@pytest.mark.parametrize("line", ACCEPTED)
def test_text_that_stays_data_is_not_reported(line: str):
    assert not find_evaluations(f"#!/bin/bash\n{line}\n", PROGRAMS)


@pytest.mark.parametrize("shell", ["#!/bin/ksh", "#!/usr/bin/env zsh", "#! /bin/mksh"])
def test_shells_that_calculate_in_single_brackets_are_read_so(shell: str):
    for line in ('[ "$(prog)" -eq 7 ]', "printf '%d' \"$(prog)\""):
        assert find_evaluations(f"{shell}\n{line}\n", PROGRAMS)
        assert not find_evaluations(f"#!/bin/dash\n{line}\n", PROGRAMS)


def test_a_program_that_is_not_declared_is_not_known():
    assert find_evaluations("prog 3")
    assert not find_evaluations("prog 3", ["/usr/local/bin/prog"])


def test_what_is_too_long_or_too_deep_to_look_at_is_reported():
    assert [one.line for one in find_evaluations("true\n" * 60_000)] == [1]
    assert [one.line for one in find_evaluations("true\n" * 40_000)] == [1]
    assert [one.line for one in find_evaluations("echo " + "$(" * 200 + "true" + ")" * 200)] == [1]


def count_steps(script: str, monkeypatch: pytest.MonkeyPatch) -> int:
    steps = []
    visit, expand = analysis._Walker._visit, analysis.Expander.expand
    monkeypatch.setattr(analysis._Walker, "_visit", lambda *args: steps.append(1) or visit(*args))
    monkeypatch.setattr(analysis.Expander, "expand", lambda *args: steps.append(1) or expand(*args))
    find_evaluations(script, PROGRAMS)
    monkeypatch.undo()
    return len(steps)


@pytest.mark.parametrize("piece", ["x{n}=$(prog $x{m}); [[ $x{n} -eq 1 ]]\n", "f{n}() {{ f{m} $1; }}; f{n} $(prog)\n"])
def test_the_analysis_takes_linear_time(piece: str, monkeypatch: pytest.MonkeyPatch):
    small, large = ("".join(piece.format(n=n, m=max(n - 1, 0)) for n in range(count)) for count in (100, 1000))
    assert count_steps(large, monkeypatch) < 12 * count_steps(small, monkeypatch)


def test_a_long_chain_of_variables_in_the_wrong_order_is_reported_as_a_whole():
    chain = "".join(f"x{n}=$x{n + 1}\n" for n in range(30))
    assert [one.line for one in find_evaluations(chain + "x30=$(prog)\n", PROGRAMS)] == [1]
    assert not find_evaluations(chain + "x30=1\n", PROGRAMS)


@given(st.lists(st.sampled_from([*REPORTED, *ACCEPTED]), max_size=4), st.text(max_size=60), st.integers(0, 400))
@settings(max_examples=150, deadline=None)
def test_no_script_breaks_the_analysis(lines: list[str], noise: str, place: int):
    script = "\n".join(lines)
    find_evaluations(script[:place] + noise + script[place:], PROGRAMS)


@given(st.lists(st.sampled_from(ACCEPTED), min_size=1, max_size=5), st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_an_evaluation_is_reported_wherever_it_stands_in_an_accepted_script(lines: list[str], place: int):
    lines.insert(min(place, len(lines)), 'eval "$x"')
    assert any("eval" in one.reason for one in find_evaluations("\n".join(lines), PROGRAMS))


FOLDER = {"test.sh": b'#!/bin/sh\n. "$(dirname "$0")/lib.sh"\ncheck "$(prog)"\n'}


@pytest.mark.parametrize(
    ("files", "where"),
    [
        ({"lib.sh": b"check() { [ $1 = 7 ]; }\n"}, ["lib.sh:1"]),
        ({"lib.sh": b'check() { [ "$1" = 7 ]; }\n'}, []),
        ({"lib.sh": b'check() { want=7; [ "$1" -eq 7 ]; }\n', "lib.ksh": b""}, []),
        ({"lib.ksh": b'check() { [ "$1" -eq 7 ]; }\n'}, ["lib.ksh:1"]),
        ({"lib": b"#!/bin/bash\ncheck() { (( $1 == 7 )); }\n"}, ["lib:2"]),
        ({"lib.sh": b"check() { :; }\n", "check.py": b"import os\nos.system(input())\n"}, ["check.py:2"]),
        ({"lib.sh": b"check() { :; }\n", "check": b"#!/usr/bin/python3\neval(input())\n"}, ["check:2"]),
        ({"lib.sh": b"check() { :; }\nsh /tests/data\n", "data": b"eval $x"}, ["lib.sh:2"]),
        ({"lib.sh": b"check() { :; }\npython3 /tests/$1\n", "data": b"eval $x"}, ["lib.sh:2"]),
        ({"lib.sh": b"check() { :; }\n", "data": b"eval $x", "data.bin": b"eval $x\0", "data.txt": b"eval $x"}, []),
    ],
)
def test_all_files_of_a_folder_that_a_shell_or_python_may_run_are_looked_at(files: dict[str, bytes], where: list[str]):
    found = find_folder_evaluations({**FOLDER, **files}, PROGRAMS)
    assert list(dict.fromkeys(f"{one.file}:{one.line}" for one in found)) == where
    assert all(one.describe().startswith(f"{one.file}:{one.line}: {one.text}") for one in found)


def test_bounds_of_the_parser_are_small():
    assert syntax.MOST_TEXT <= 1 << 18
    assert syntax.MOST_DEPTH <= 100
