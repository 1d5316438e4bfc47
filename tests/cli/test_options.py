"""Every command keeps its options: scripts and the documentation call them by these names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cyclopts import App

from attnlab.cli.app import VERBS, GlobalOptions, build_app

# Each command with its arguments and options, in alphabetical order.
OPTIONS = {
    "compare": (
        "--add-seeds --alpha --baseline --bundle --bundle-limit --change --claims --corpus --corpus-option --csv "
        "--figures --first-seed --json --ladder --looks --margin --markdown --match "
        "--on --out --pilot --plan --processes --quiet --recipe "
        "--report --retrofit --rungs --seeds --size --smoke --steps --threads --tokenizer --tokens-per-parameter "
        "--tune --tune-seeds --unchecked --variants-from --vocabulary-size --where VARIANTS"
    ),
    "scale": (
        "--alpha --baseline --bundle --bundle-limit --change --claims --corpus --csv --figures --first-seed "
        "--half-tokens --held-out --hours --json --least-tokens --margin --no-half-tokens --on "
        "--out --plan --processes --quiet --rate-count --rate-rungs "
        "--rate-seeds --rates-only --recipe --report --rungs --seeds --target --threads --tokenizer "
        "--tokens-per-parameter --unchecked --up-to --variants-from --vocabulary-size --where VARIANTS"
    ),
    "variants": "--json --markdown --variants-from NAME",
    "check": "--json --out --quick --variants-from NAME",
    "cost": (
        "--batch --change --checkpointing --context --csv --family --figures --json --measure --memory "
        "--mixed-precision --number-bytes --out --per-head --recipe --sweep --tensors --threads --variant "
        "--variants-from --vocabulary SIZES"
    ),
    "train": (
        "--bundle --bundle-limit --change --checkpoint-seconds --compile --corpus --corpus-option --json "
        "--micro-batch-size --minutes --out --precision --quiet --recipe "
        "--seed --size --steps --tensorboard --threads --tokenizer --unchecked "
        "--variant --variants-from --vocabulary-size --workers RUN"
    ),
    "generate": "--json --out --samples --seed --temperature --tokens --top-k --top-p --variants-from PROMPTS RUN",
    "look": (
        "--analogy --beside --compare --embeddings --facts --figures --head --importance --json --layer --maps-only "
        "--names --neurons --no-importance --on --out --over-training --runs --source --step --survey --token "
        "--tokens --variants-from --weights RUN TEXT"
    ),
    "retrofit": (
        "--batch-size --budget --checkpoint-seconds --csv --distil-learning-rate --distil-share --figures "
        "--fitting-texts --json --layers --learning-rate --length --out --quiet --report --save --seeds --smoke --text "
        "--texts --threads --to --tokens --variants-from --within --workers MODEL"
    ),
    "exhibit": "--all --figures --json --markdown --out --set --smoke NAME",
    "knowledge pretrain": (
        "--calibration-share --checkpoint-seconds --context-length --document-qa --dropout --epochs --heldout "
        "--heldout-share --json --minutes --model-width --no-document-qa --no-synthetic-qa --num-heads --num-layers "
        "--objective --out --pairs --quiet --recipe --seed --steps --synthetic-qa --text --threads --tokenizer "
        "--variant --vocabulary-size --workers"
    ),
    "knowledge finetune": (
        "--calibration-share --checkpoint-seconds --context-length --document-qa --dropout --epochs --heldout "
        "--heldout-share --json --minutes --model-width --no-document-qa --no-synthetic-qa --num-heads --num-layers "
        "--objective --out --pairs --quiet --recipe --seed --steps --synthetic-qa --text --threads --tokenizer "
        "--variant --vocabulary-size --workers RUN"
    ),
    "knowledge evaluate": "--json --out --pairs --predictions --samples --seed RUN",
    "knowledge run": (
        "--alone --calibration-share --checkpoint-seconds --context-length --document-qa --dropout --epochs --heldout "
        "--heldout-share --json --minutes --model-width --no-document-qa --no-synthetic-qa --num-heads --num-layers "
        "--objective --out --pairs --quiet --recipe --seed --synthetic-qa --text --threads --tokenizer --variant "
        "--vocabulary-size --workers"
    ),
    "knowledge demo": "--json --out --quiet --seed --smoke --threads --workers",
    "knowledge facts import": "--json --kind --source --store --who FILE",
    "knowledge facts add": "--json --source --store --who ANSWER QUESTION",
    "knowledge facts search": "--json --limit --store WORDS",
    "knowledge facts export": "--form --store FILE",
    "knowledge facts retract": "--json --store --who FACT",
    "knowledge facts restore": "--json --store FACT",
    "knowledge facts correct": "--json --source --store --who ANSWER FACT",
    "knowledge facts check": "--json --store",
    "knowledge learn": "--epochs --every --json --out --quiet --store RUN",
    "knowledge report": "--delta --figures --json --out --page --risk --samples --score --seed RUN",
    "ask": "--delta --facts --json --only-memory --out --pairs --risk --score --who QUESTION RUN",
    "runs list": "--json --out",
    "runs show": "--json --out RUN",
    "runs rm": "--out --yes RUN",
    "runs gc": "--dry-run --json --out",
    "verify": "--json --out --page --receipt --report --segments --variants-from SUBJECT",
    "studio": "--expose --host --json --no-browser --port --runs --variants-from",
    "completion": "SHELL",
    "bench train": (
        "--against --bars --grid --json --memory --nanogpt --no-transformers --out --rounds --shape --smoke "
        "--strict --threads --transformers --variants"
    ),
    "bench generate": (
        "--bars --json --nanogpt --no-transformers --out --rounds --smoke --strict --threads --transformers"
    ),
    "bench time-to-loss": "--bars --json --nanogpt --out --seeds --smoke --strict --text",
    "bench verdicts": "--bars --json --out --simulations --smoke --strict --trained",
    "bench forecasts": "--bars --json --ladders --out --smoke --strict --study",
    "bench cost": "--bars --json --out --rounds --smoke --strict --threads",
    "bench compare": "--bars --json --out --smoke --strict",
    "bench facts": "--bars --count --json --out --smoke --strict",
    "bench verify": "--bars --json --out --rounds --smoke --strict COMPARISON",
    "bench look": "--bars --json --out --rounds --smoke --strict --threads",
    "bench pretrained": "--bars --json --out --rounds --smoke --strict --threads MODEL",
    "bench retrofit": "--bars --json --out --rounds --smoke --strict --threads MODEL",
    "bench studio": "--bars --json --minutes --out --smoke --strict",
    "bench attention": (
        "--bars --batch --heads --json --out --rounds --smoke --strict --threads --tokens --variants-from --width "
        "VARIANT"
    ),
}


def commands(app: App, chain: tuple[str, ...] = ()) -> Iterator[tuple[str, App]]:
    """Yield every command that can be run, by its words."""
    names = [name for name in app if not name.startswith("-")]
    if chain and not names:
        yield " ".join(chain), app
    for name in names:
        yield from commands(app[name], (*chain, name))


@pytest.fixture(scope="module")
def found() -> dict[str, App]:
    return dict(commands(build_app(VERBS, GlobalOptions())))


def test_there_are_these_commands(found: dict[str, App]) -> None:
    assert sorted(found) == sorted(OPTIONS)


@pytest.mark.parametrize("command", sorted(OPTIONS))
def test_a_command_has_these_options(command: str, found: dict[str, App]) -> None:
    arguments = found[command].assemble_argument_collection()
    names = {name for argument in arguments for name in argument.names if name != "*"}
    assert " ".join(sorted(names)) == OPTIONS[command]
