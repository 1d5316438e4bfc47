"""Texts that people meet first: the README is short, claims stand alone, and every id leads to its claim."""

from __future__ import annotations

import re
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


def claim_ids(text: str) -> list[str]:
    """The ids before the colon, as in "0.5, d.i–ii: what sharing costs"."""
    ids = text.partition(":")[0].split(", ")
    return [one.split("–")[0] for one in ids]


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
