"""`python -m attnlab.studio.work [FILE] [NUMBER]`: answer questions, one JSON object per line, until input ends.

FILE adds user-defined variants. With the NUMBER of a socket, forked copies of this process answer the questions."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from attnlab.attention import load_variants
from attnlab.errors import InputError, UnknownNameError
from attnlab.processes.child import serve
from attnlab.processes.machine import available_cores, memory_bytes
from attnlab.processes.memory import give_back_memory, share_memory
from attnlab.processes.template import serve_copies

# The tasks, and the functions that answer them. A module is imported on its first task, or before the process forks.
TASKS = {
    "attend": "playground:attend",
    "vary": "playground:vary",
    "change": "playground:change",
    "resize": "playground:resize",
    "export": "playground:export",
    "form": "playground:form",
    "presets": "playground:presets",
    "variants": "experiments.comparisons:variants",
    "plan": "experiments.comparisons:plan",
    "follow": "experiments.comparisons:follow",
    "plan_study": "experiments.studies:plan_study",
    "follow_study": "experiments.studies:follow_study",
    "experiments": "experiments.lists:experiments",
    "latest": "experiments.lists:latest",
    "stop": "experiments.lists:stop",
    "report": "experiments.lists:report",
    "table": "experiments.lists:table",
    "cost_choices": "pages:cost_choices",
    "cost": "pages:cost",
    "models": "runs:models",
    "ask": "runs:ask",
    "keep": "runs:keep",
    "promise": "runs:promise",
    "trust": "runs:trust",
    "facts": "facts:facts",
    "correct_fact": "facts:correct_fact",
    "retract_fact": "facts:retract_fact",
    "restore_fact": "facts:restore_fact",
    "learnable": "facts:learnable",
    "learn": "facts:learn",
    "course": "pages:course",
    "exhibit": "pages:exhibit",
    "run_exhibit": "pages:run_exhibit",
    "runs": "runs:runs",
    "own_text": "runs:own_text",
    "look": "runs:look",
    "flow": "flow:flow",
    "explain": "flow:explain",
    "train_tour": "flow:train_tour",
    "ablate": "runs:ablate",
    "retrofit_form": "retrofits:retrofit_form",
    "plan_retrofit": "retrofits:plan_retrofit",
    "retrofits": "retrofits:retrofits",
    "follow_retrofit": "retrofits:follow_retrofit",
    "stop_retrofit": "retrofits:stop_retrofitting",
    "retrofit_report": "retrofits:retrofit_report",
}


def answer(question: dict[str, Any]) -> Mapping[str, object]:
    """Call the task that a question names with the rest of the question."""
    task = question.pop("task")
    if task not in TASKS:
        raise UnknownNameError("task", task, TASKS)
    module, _, name = TASKS[task].partition(":")
    work = getattr(_imported(module), name)
    try:
        found: Mapping[str, object] = work(**question)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "not enough memory" not in str(error):
            raise
        raise InputError("this needs more memory than the studio may use", hint="ask for a smaller size") from None
    finally:
        give_back_memory()
    return found


def _imported(module: str) -> ModuleType:
    return import_module(f"attnlab.studio.work.{module}")


def _prepare(threads: int | None) -> None:
    """Prepare a copy of this process."""
    torch.set_num_threads(threads or available_cores())
    share_memory()
    limit_memory()


def limit_memory(share: float = 0.5) -> None:
    """Let this process allocate at most a share of the machine's memory, so that no question can exhaust it."""
    memory = memory_bytes()
    if memory is not None and sys.platform == "linux":  # on other systems the limit does not count mapped memory
        most = int(share * memory)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    *paths, number = sys.argv[1:] if sys.argv[-1].isdigit() else [*sys.argv[1:], None]
    for path in paths:
        load_variants(Path(str(path)))
    if number is None:
        limit_memory()
        serve(answer)
    else:
        for module in sorted({task.partition(":")[0] for task in TASKS.values()}):
            _imported(module)
        serve_copies(answer, int(number), _prepare)
