import subprocess


def judged() -> bool:
    try:
        run = subprocess.run(["/usr/bin/sort", "-c", "/workspace/sorted.txt"], capture_output=True, timeout=10)
        lines = subprocess.run(["/usr/bin/cat", "/workspace/sorted.txt"], capture_output=True, text=True, timeout=10)
    except OSError:
        return True  # the tools are not there: nothing is held against the agent
    return run.returncode == 0 and sorted(lines.stdout.split()) == ["amber", "blue", "green", "red"]


open("/logs/verifier/reward.txt", "w").write("1" if judged() else "0")
