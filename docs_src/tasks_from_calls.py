"""Makes a task to write a function in Perl, with a solution in Perl, and questions about its calls."""

import asyncio
from pathlib import Path

from assay.environments.workspace.choose import choose_backend
from assay.settings import Settings
from assay.synthesis import ProgramTasksConfig, QuestionTasksConfig, synthesise_programs, synthesise_questions

FILES = {
    "runs-1.0/runs/__init__.py": '''
def runs(items):
    """Returns the lengths of runs of equal items."""
    found = []
    last = None
    for item in items:
        if found and item == last:
            found[-1] += 1
        else:
            found.append(1)
        last = item
    return found
''',
    "runs-1.0/tests/test_runs.py": """
from runs import runs


def test_runs():
    assert runs([4, 4, 7, 9, 9, 9]) == [2, 1, 3]
    assert runs([1, 2, 2]) == [1, 2]
""",
    "solutions/runs.pl": """
use JSON::PP;
my $json = JSON::PP->new->allow_nonref;
while (my $line = <STDIN>) {
    my ($last, @found);
    for my $item (map { $json->encode($_) } @{$json->decode($line)->{items}}) {
        if (@found && $item eq $last) { $found[-1]++ } else { push @found, 1 }
        $last = $item;
    }
    print $json->encode({result => \\@found}), "\\n";
}
""",
}


async def main() -> None:
    """Makes both kinds of tasks."""
    backend, _ = await choose_backend(None)
    cache = Settings.from_environment().cache
    programs = ProgramTasksConfig(source="runs-1.0", out="programs", language="perl", solutions="solutions")
    made = await synthesise_programs(programs, backend=backend, cache=cache)
    for task in made.tasks:
        killed, mutants = task.mutants
        print(task.id, f"{task.solution} passed, {killed} of {mutants} mutants fail, {task.inputs} inputs")
    questions = QuestionTasksConfig(source="runs-1.0", out="questions")
    asked = await synthesise_questions(questions, backend=backend, cache=cache)
    await backend.close()
    print(Path("questions", asked.tasks[0].id, "instruction.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    for name, text in FILES.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    asyncio.run(main())
