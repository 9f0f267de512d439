"""A custom format: conversations in CSV, with the columns conversation, who and text.

Used as `assay import talks.csv --format csv_format.py` and `assay export RUN --to csv_format.py --out talks.csv`, or
registered as entry point `assay.formats`.
"""

import csv
import io
from pathlib import Path

from assay.formats import ImportContext, Loss, Origin, ReadProblem, TrajectoryBuilder, digest_file, new_file, read_head


class CsvFormat:
    name, title, provenance, writes = "csv", "Conversations in CSV", "specification", True

    def recognises(self, path):
        return read_head(path, 100).startswith(b"conversation,who,text")

    def read(self, path, reading):
        origin, talks = Origin(self.name, path.name, digest_file(path)), {}
        with path.open(newline="", encoding="utf-8", errors="replace") as stream:
            for row in csv.DictReader(stream):
                if row["who"] not in ("user", "agent"):
                    reading.report_problem(ReadProblem(path.name, f"conversation {row['conversation']}", "who is it?"))
                    continue
                talk = talks.setdefault(row["conversation"], TrajectoryBuilder(origin, reading))
                talk.add_step(row["who"], row["text"])
        for name, talk in talks.items():
            yield talk.finish(f"conversation {name}")

    def write(self, trajectories, target, writing):
        with new_file(target) as stream:
            text = io.StringIO(newline="")
            rows = csv.writer(text, lineterminator="\n")
            rows.writerow(["conversation", "who", "text"])
            for number, trajectory in enumerate(trajectories, 1):
                spoken = [step for step in trajectory.steps if step.actor in ("user", "agent") and step.message]
                rows.writerows([number, step.actor, step.message] for step in spoken)
                if trajectory.verdicts:
                    writing.report_loss(Loss(trajectory.attempt, "verdicts", "a row has no place for them"))
            stream.write(text.getvalue().encode())


if __name__ == "__main__":
    path = Path("talks.csv")
    path.write_text("conversation,who,text\n1,user,hello\n1,agent,hi\n1,ghost,boo\n2,user,bye\n", encoding="utf-8")
    problems: list[ReadProblem] = []
    for found in CsvFormat().read(path, ImportContext(lambda _: "", problems.append)):
        print(found.key, [body.step.message for body in found.bodies if hasattr(body, "step")])
    print("unreadable:", problems[0].place, problems[0].problem)
