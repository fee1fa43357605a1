"""What is printed about each file."""

import json
from dataclasses import asdict

from farpoint.cli.sample.choose import Choice
from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import Task
from farpoint.io.decoder import Opened


def as_json(task: Task, opened: Opened, choice: Choice) -> str:
    """One object on one line; `covering_radius` of several parts is a bound."""
    return json.dumps(
        {
            "input": task.source.location,
            "output": task.output,
            "picture": None if task.picture is None else str(task.picture),
            "points": opened.count,
            "samples": len(choice.rows),
            "covering_radius": choice.radius,
            "exact": choice.parts == 1,
            "parts": choice.parts,
            "unit": opened.unit,
            "notes": list(opened.notes),
            "origin": None if choice.origin is None else choice.origin.tolist(),
            "timings": None if choice.timings is None else asdict(choice.timings),
            "request_id": choice.request_id,
        }
    )


def as_text(task: Task, opened: Opened, choice: Choice) -> str:
    """One line."""
    target = task.output or task.picture or task.indices_path
    said = (
        f"{task.source.location} -> {target}: {len(choice.rows)} of {opened.count} points, "
        f"{_radius(choice)}"
    )
    if (t := choice.timings) is not None:
        said += (
            f", {t.total_ms:.1f} ms "
            f"(queue {t.queue_ms:.1f}, compute {t.compute_ms:.1f}, wire {t.wire_ms:.1f})"
        )
    return said + "".join(f"; {note}" for note in opened.notes)


def _radius(choice: Choice) -> str:
    if choice.parts == 1:
        return f"covering radius {choice.radius:.4g}"
    return (
        f"covering radius at most {choice.radius:.4g} (sampled in {choice.parts} parts, then the "
        "samples; exact for each part, not for the whole)"
    )


def render(task: Task, opened: Opened, choice: Choice, options: Options) -> str:
    """The line for a file that is done."""
    return (as_json if options.as_json else as_text)(task, opened, choice)
