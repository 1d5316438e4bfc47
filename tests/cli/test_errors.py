"""Errors from below the command line name parameters; they are printed as options of the running command."""

from __future__ import annotations

import pytest

from attnlab.cli import main
from attnlab.cli.app import VERBS, GlobalOptions, build_app
from attnlab.cli.errors import options_of, print_error, set_running, translate
from attnlab.errors import AttnlabError

OPTIONS = {"--pilot", "--tokens-per-parameter", "--half-tokens", "--no-half-tokens", "--claims", "--change", "--size"}


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("use `pilot=3`, or `pilot=0` for none", "use `--pilot 3`, or `--pilot 0` for none"),
        ("`tokens_per_parameter=120` is the default", "`--tokens-per-parameter 120` is the default"),
        ("leave out `tokens_per_parameter`", "leave out `--tokens-per-parameter`"),
        ("`half_tokens=True` or `half_tokens=False`", "`--half-tokens` or `--no-half-tokens`"),
        ("`claims=True`, not `claims=False`", "`--claims`, not `claims=False`"),  # which has no negative
        ("`size='25k'` or `size=\"a b\"`", '`--size 25k` or `--size "a b"`'),
        ("`pilot=None` chooses", "`pilot=None` chooses"),
        ("`changes=dropout=0.1`", "`--change dropout=0.1`"),  # whose option is called otherwise
        ("`variants` are arguments", "`variants` are arguments"),
        ("`rungs=6k` of another command", "`rungs=6k` of another command"),
        ("pilot=3 without backticks", "pilot=3 without backticks"),
        ("`attnlab compare --pilot 3`", "`attnlab compare --pilot 3`"),
    ],
)
def test_parameters_become_options(text: str, printed: str) -> None:
    assert translate(text, OPTIONS) == printed


@pytest.mark.parametrize(
    ("command", "text", "printed"),
    [
        ("compare", "`seeds=8` `rungs` `variants` `changes`", "`--seeds 8` `--rungs` `variants` `--change`"),
        ("scale", "`half_tokens=False` `corpora` `pilot=3`", "`--no-half-tokens` `--corpus` `pilot=3`"),
        ("cost", "`context_length=512` `bytes_per_number=2`", "`--context 512` `--number-bytes 2`"),
        ("train", "`context_length=512` `micro_batch_size=4`", "`context_length=512` `--micro-batch-size 4`"),
        ("knowledge finetune", "`document_qa=False` `model_width=64`", "`--no-document-qa` `--model-width 64`"),
        ("bench attention", "`rounds=1` `smoke=True`", "`--rounds 1` `--smoke`"),
        ("bench train", "`nanogpt=~/nanoGPT` `transformers=False`", "`--nanogpt ~/nanoGPT` `--no-transformers`"),
        ("runs rm", "`yes=True` `run`", "`--yes` `run`"),
    ],
)
def test_options_are_those_of_the_command(command: str, text: str, printed: str) -> None:
    app = build_app(VERBS, GlobalOptions())
    for word in command.split():
        app = app[word]
    assert translate(text, options_of(app)) == printed


@pytest.mark.parametrize(
    ("tokens", "printed"),
    [
        (["bench", "attention", "--rounds", "0"], "hint: use `--rounds 1` or more; 15 give a steady median"),
        (["bench", "generate", "--nanogpt", "missing"], "such as `--nanogpt ~/nanoGPT`"),
        (["bench", "verdicts", "--simulations", "0"], "hint: use `--simulations 1` or more"),
        (["generate", "no-run", "--samples", "0"], "hint: use `--samples 1` or more"),
        (["--verbose", "train", "--checkpoint-seconds", "0"], "hint: use a number above 0 for `--checkpoint-seconds`"),
    ],
)
def test_commands_print_their_own_options(tokens: list[str], printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tokens) == 2
    assert printed in capsys.readouterr().err


def test_without_a_running_command_an_error_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    set_running(None)
    print_error(AttnlabError("`pilot=3` is refused", hint="use `pilot=0`"))
    assert capsys.readouterr().err == "error: `pilot=3` is refused\n\nhint: use `pilot=0`\n"
