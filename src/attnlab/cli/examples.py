"""An example of every command: `attnlab` alone lists one for each job, and the help of a command ends with its own.

The order is that of use: find a variant, see its cost, check it, train and compare, inspect the model, share results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cyclopts import App
from rich.console import Console
from rich.table import Table
from rich.text import Text

EXAMPLES: Mapping[str, str] = {
    "variants": "attnlab variants tied-kv",
    "exhibit": "attnlab exhibit scaling",
    "cost": "attnlab cost gpt2 --variant tied-kv",
    "check": "attnlab check mine --variants-from mine.py",
    "compare": "attnlab compare tied-kv sigmoid",
    "scale": "attnlab scale tied-kv --hours 8",
    "train": "attnlab train --variant tied-kv --steps 500",
    "generate": 'attnlab generate RUN "The value of"',
    "look": 'attnlab look RUN "The value of an expression"',
    "retrofit": "attnlab retrofit RUN --to tied-kv,window:32",
    "knowledge": "attnlab knowledge demo",
    "ask": 'attnlab ask RUN "Where was Ada born?"',
    "runs": "attnlab runs list",
    "verify": "attnlab verify RUN",
    "studio": "attnlab studio",
    "bench": "attnlab bench attention softmax",
    "completion": "attnlab completion bash",
    "knowledge pretrain": "attnlab knowledge pretrain --text notes.txt --steps 2000",
    "knowledge finetune": "attnlab knowledge finetune RUN --pairs pairs.jsonl",
    "knowledge evaluate": "attnlab knowledge evaluate RUN --pairs heldout.jsonl",
    "knowledge run": "attnlab knowledge run --text notes.txt --pairs pairs.jsonl",
    "knowledge demo": "attnlab knowledge demo --smoke",
    "knowledge learn": "attnlab knowledge learn RUN --store facts.sqlite",
    "knowledge report": "attnlab knowledge report RUN --page knowledge.html",
    "knowledge facts": 'attnlab knowledge facts search "Ada"',
    "knowledge facts import": "attnlab knowledge facts import facts.csv --store facts.sqlite",
    "knowledge facts add": 'attnlab knowledge facts add "Where was Ada born?" London --store facts.sqlite',
    "knowledge facts search": 'attnlab knowledge facts search "Ada" --store facts.sqlite',
    "knowledge facts export": "attnlab knowledge facts export facts.csv --store facts.sqlite",
    "knowledge facts retract": "attnlab knowledge facts retract 12 --store facts.sqlite",
    "knowledge facts restore": "attnlab knowledge facts restore 12 --store facts.sqlite",
    "knowledge facts correct": "attnlab knowledge facts correct 12 Bray --store facts.sqlite",
    "knowledge facts check": "attnlab knowledge facts check --store facts.sqlite",
    "runs list": "attnlab runs list --out runs",
    "runs show": "attnlab runs show RUN",
    "runs rm": "attnlab runs rm RUN --yes",
    "runs gc": "attnlab runs gc --dry-run",
    "bench train": "attnlab bench train --shape small",
    "bench generate": "attnlab bench generate --nanogpt ../nanoGPT",
    "bench time-to-loss": "attnlab bench time-to-loss --text input.txt --nanogpt ../nanoGPT",
    "bench verdicts": "attnlab bench verdicts --simulations 1000",
    "bench forecasts": "attnlab bench forecasts --ladders 200",
    "bench cost": "attnlab bench cost --bars",
    "bench compare": "attnlab bench compare --bars",
    "bench facts": "attnlab bench facts --count 10000",
    "bench look": "attnlab bench look --bars",
    "bench pretrained": "attnlab bench pretrained smollm2",
    "bench retrofit": "attnlab bench retrofit smollm2 --bars",
    "bench verify": "attnlab bench verify --bars",
    "bench studio": "attnlab bench studio --bars",
    "bench attention": "attnlab bench attention softmax --tokens 1024",
}


def add_example(app: App, tokens: Sequence[str]) -> None:
    """Let the help of the command that a command line names end with its example.

    Parameters
    ----------
    app
        The app with all commands; only the one that is named is imported.
    tokens
        The command line, without the program's name.
    """
    chain, apps, _ = app.parse_commands([token for token in tokens if token != "--verbose"])
    words = [word for word in chain if not word.startswith("-")]  # cyclopts treats --help as a command, too
    example = EXAMPLES.get(" ".join(words))
    if example is not None:
        apps[len(words)].help_epilogue = f"Example: {example}"


def print_overview(lead: str, summaries: Mapping[str, str]) -> None:
    """Print every job with an example, in the order of use.

    Parameters
    ----------
    lead
        What the program is for.
    summaries
        The commands with one sentence on each.
    """
    order = [name for name in EXAMPLES if name in summaries]
    table = Table.grid(padding=(0, 3, 0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for name in [*order, *(name for name in summaries if name not in order)]:
        table.add_row(Text(EXAMPLES.get(name, f"attnlab {name}")), Text(summaries[name]))
    console = Console(highlight=False)
    console.print(
        f"{lead}\n", table, "\nattnlab COMMAND --help explains a command; --verbose shows where an error came from."
    )
