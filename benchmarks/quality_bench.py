#!/usr/bin/python3
"""Scores of the text found in the fixtures against their truth: quality_bench.py BUILD FIXTURES

Runs the whole pipeline on each clip. A score has no peer: its ratio is its value.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CLIPS = ["feed", "chat", "subtitles"]

# score, where it stands in score.py's output, goal, which way is better
SCORES = [
    ("line recall", lambda s: s["line_recall"], 0.985, "higher"),
    ("segment precision", lambda s: s["segment_precision"], 0.97, "higher"),
    ("segments per line", lambda s: s["segments_per_line"], 1.1, "lower"),
    ("start error p95 ms", lambda s: s["t_start_err_ms"]["p95"], 50, "lower"),
    ("end error p95 ms", lambda s: s["t_end_err_ms"]["p95"], 50, "lower"),
]


def entity_scores(score):
    for kind, figures in score["entities"].items():
        if figures["want"]:
            yield f"{kind} recall", figures["recall"]
        if figures["precision"] is not None:
            yield f"{kind} precision", figures["precision"]


def figure(name, value, goal, better):
    return {"suite": "text", "name": name, "unit": "score", "ours": value, "peer": None,
            "peer_name": None, "ratio": value, "goal": goal, "better": better}


def main():
    build, fixtures = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    for clip in CLIPS:
        with tempfile.TemporaryDirectory(prefix="cortana-quality-") as folder:
            os.chmod(folder, 0o755)
            export = pathlib.Path(folder) / "export.json"
            subprocess.run([build / "cli" / "cortana", "run", fixtures / f"{clip}.mp4",
                            "--data", pathlib.Path(folder) / "data", "--export", export],
                           check=True, stdout=subprocess.DEVNULL)
            scored = subprocess.run(["/usr/bin/python3", fixtures.parent / "tests" / "score.py",
                                     fixtures / f"{clip}.truth.json", export],
                                    check=True, capture_output=True, text=True)
        score = json.loads(scored.stdout)
        for name, read, goal, better in SCORES:
            print(json.dumps(figure(f"{clip} {name}", read(score), goal, better)), flush=True)
        for name, value in entity_scores(score):
            print(json.dumps(figure(f"{clip} {name}", value, 0.95, "higher")), flush=True)


if __name__ == "__main__":
    main()
