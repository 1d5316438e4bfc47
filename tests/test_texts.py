"""Texts that people meet first: a short README, standard terms, and claims that stand alone, each with its id."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from attnlab.attention import variants
from attnlab.exhibits import exhibits

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "docs" / "how-to").glob("*.md"))
CLAIMS = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")

# Documents that a reader does not have.
PRIVATE = re.compile(r"\bthe (?:notes|meeting|discussion sheet|sheet)\b", re.IGNORECASE)
HISTORY = {"log.md"}  # entries are never rewritten

# Words that the field does not use in this sense, and what it uses.
DENIED = {
    r"turned": "rotated; of answers, rejected",
    r"bend|bends|bent": "pre-activation, activation; of a curve, curves",
    r"(?:widen|narrow)(?:s|ed|ing)?": "up-projection, down-projection; of an interval, enlarge",
    r"slopes?": "gradient, derivative",
    r"shorten(?:s|ed|ing)?": "clip (gradients)",
    r"practi[cs](?:e|es|ed|ing)": "synthetic QA",
    r"reading": "document-conditioned QA; of a prompt, prefill",
    r"strangers?": "unseen entities",
    r"(?:with|and|then|half) a cosine(?! schedule)|trapezoids?": "cosine schedule, warmup–stable–decay schedule",
    r"finds? (?:about )?\d[\d.]* %": "can detect a difference of",
    r"worth": "importance, ablation effect",
    r"likeness(?:es)?": "similarity",
    r"effectively looks? at": "effective number of keys",
    r"(?:planned|next|first|interim|second) looks?|looks? (?:is|are) planned": "interim analysis",
    r"go on|goes on|going on": "resumes, continues",
    r"writing": "generation, decoding",
    r"crews?|teams?|boards?": "worker pool, process group, status table",
    r"sides": "groups",
    r"passes over memory": "memory traffic",
    r"rooms?": "package; of memory or space, say what fits",
    r"boast(?:s|ed|ing)?": "is overconfident",
    r"whoever|somebody|(?:it|this|that|afterwards) is none": "a plain sentence",
}
# The same words in another sense.
ALLOWED = {
    r"\{name\} turned ten": "a sentence of the generated world",
    r"slope (?:per seed|of the paired difference)": "the coefficient of a regression",
    r"− ?slope·": "the coefficient of ALiBi, as in its paper",
    r"shorten (?:the list|them)": "a list of layers, and prompts",
    r"reading (?:order|group)": "the order of files; people who discuss papers",
    r"worth\s+in\s+steps": "steps that an arm saves, not a head",
    r"held for writing": "a file lock",
    r"Gemma Team": "an author",
}
DENY = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in DENIED), re.IGNORECASE)
ALLOW = re.compile("|".join(ALLOWED), re.IGNORECASE)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
PARAMETER = re.compile(r"^ +\w+$", re.MULTILINE)  # a line of a docstring that names an option


def claim_ids(text: str) -> list[str]:
    """The ids before the colon, as in "0.5, d.i–ii: what sharing costs"."""
    ids = text.partition(":")[0].split(", ")
    return [one.split("–")[0] for one in ids]


def denied(text: str) -> list[str]:
    """Return the words of a text that the deny-list has, outside of code and of other senses."""
    return DENY.findall(ALLOW.sub("", PARAMETER.sub("", CODE.sub("", text))))


def printed(source: Path) -> Iterator[str]:
    """Yield the texts of a file that people may see: strings with several words, and docstrings that are help."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    bodies = (node.body[0] for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list) and node.body)
    docstrings = {id(first.value) for first in bodies if isinstance(first, ast.Expr)}
    is_help = "cli" in source.parts
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if len(text.split()) > 1 and (is_help or id(node) not in docstrings):
            yield text


@cache
def all_printed() -> list[tuple[str, str]]:
    """Return every text of the package that people may see, with its file."""
    package = ROOT / "src" / "attnlab"
    return [(file.relative_to(package).as_posix(), text) for file in package.rglob("*.py") for text in printed(file)]


def test_the_readme_takes_two_minutes() -> None:
    assert len(README.split()) <= 700
    assert README.index("![") < README.index("\n## "), "the picture stands above the first heading"


def test_the_headline_names_its_scale() -> None:
    paragraph = README[README.index("## Result") :].split("\n\n")[1]
    headline = " ".join(paragraph.split()).split(" ([log]")[0]
    for word in ("parameters", "characters", "context of", "seeds", "%"):
        assert word in headline


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_no_page_leans_on_documents_that_the_reader_does_not_have(page: Path) -> None:
    if page.name not in HISTORY:
        assert PRIVATE.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS], ids=lambda page: page.name)
def test_pages_use_the_terms_of_the_field(page: Path) -> None:
    if page.name not in HISTORY:
        assert denied(page.read_text(encoding="utf-8")) == []


def test_printed_texts_use_the_terms_of_the_field() -> None:
    assert {(file, word, text) for file, text in all_printed() for word in denied(text)} == set()


@pytest.mark.parametrize("pattern", ALLOWED)
def test_no_exception_is_left_over(pattern: str) -> None:
    """An exception that no text needs any more is removed."""
    texts = [page.read_text(encoding="utf-8") for page in DOCS if page.name not in HISTORY]
    assert any(re.search(pattern, text, re.IGNORECASE) for text in [*texts, *(text for _, text in all_printed())])


def test_every_claim_has_one_place() -> None:
    found = re.findall(r'<a id="claim-([^"]+)"></a>', CLAIMS)
    assert len(found) == len(set(found))
    of_exhibits = {claim for one in exhibits() for claim in one.claims}
    of_variants = {claim for one in variants() if one.builtin and ":" in one.asks for claim in claim_ids(one.asks)}
    assert (of_exhibits | of_variants) - set(found) == set()


def test_every_row_of_the_claims_has_a_result_with_its_evidence() -> None:
    rows = [line for line in CLAIMS.splitlines() if line.startswith('| <a id="claim-')]
    assert len(rows) > 40
    for row in rows:
        result = row.rsplit(" | ", 1)[1]
        assert re.search(r"[Ee]xhibits? `|\]\(|`attnlab ", result), row


def test_the_glossary_defines_each_term_once() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\*\*(.+)\*\*\n: ", text, re.MULTILINE)
    assert len(terms) == len(re.findall(r"^\*\*", text, re.MULTILINE)) > 50
    assert len(terms) == len(set(terms))
