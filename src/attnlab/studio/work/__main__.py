"""`python -m attnlab.studio.work`: answer questions, one JSON object a line, until there are no more."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from attnlab.errors import UnknownNameError
from attnlab.processes.child import serve

# What can be asked, and who knows it. A module is imported when it is first asked.
TASKS = {
    "attend": "playground:attend",
    "vary": "playground:vary",
    "change": "playground:change",
    "resize": "playground:resize",
    "export": "playground:export",
    "form": "playground:form",
    "presets": "presets:presets",
    "variants": "comparisons:variants",
    "plan": "comparisons:plan",
    "comparisons": "comparisons:comparisons",
    "follow": "comparisons:follow",
    "stop": "comparisons:stop",
    "report": "comparisons:report",
    "cost_choices": "cost:choices",
    "cost": "cost:cost",
    "models": "asking:models",
    "ask": "asking:ask",
    "keep": "asking:keep",
    "promise": "asking:promise",
    "trust": "asking:trust",
    "course": "exhibits:course",
    "exhibit": "exhibits:describe",
    "run_exhibit": "exhibits:run",
    "runs": "heads:runs",
    "own_text": "heads:own_text",
    "look": "heads:look",
    "ablate": "heads:ablate",
}


def answer(question: dict[str, Any]) -> Mapping[str, Any]:
    """What the task that a question names says to the rest of it."""
    task = question.pop("task")
    if task == "hello":  # asked first, so that it is known when the process is ready
        return {}
    if task not in TASKS:
        raise UnknownNameError("task", task, TASKS)
    module, _, name = TASKS[task].partition(":")
    found: Mapping[str, Any] = getattr(import_module(f"attnlab.studio.work.{module}"), name)(**question)
    return found


if __name__ == "__main__":
    serve(answer)
