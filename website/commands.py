"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

import re

from attnlab.cli.app import VERBS, GlobalOptions, build_app
from attnlab.cli.examples import EXAMPLES


def command_reference() -> str:
    """Return every command with its arguments and options as Markdown."""
    text = build_app(VERBS, GlobalOptions()).generate_docs(recursive=True, output_format="markdown", heading_level=1)
    text = re.sub(r"^## Table of Contents\n.*?(?=^\*\*Commands)", "", text, flags=re.MULTILINE | re.DOTALL)
    # What cyclopts calls parameters are options, and a description that is wrapped is one paragraph.
    text = text.replace("**Parameters**:", "**Options**:")
    text = re.sub(r"^(\* .*(?:\n {4}\S.*)+)", lambda found: re.sub(r"\n +", " ", found[1]), text, flags=re.MULTILINE)
    text = re.sub(r"^#+ attnlab (.+)$", _with_example, text, flags=re.MULTILINE)
    return text.replace("# attnlab\n", "# Command line\n", 1)


def _with_example(heading: re.Match[str]) -> str:
    example = EXAMPLES.get(heading[1])
    return heading[0] if example is None else f"{heading[0]}\n\nExample: `{example}`"
