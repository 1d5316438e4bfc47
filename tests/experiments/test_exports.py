"""A comparison goes out whole: as strict JSON, as CSV, as Markdown and into a notebook."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from html.parser import HTMLParser

import pytest

from attnlab.experiments.reporting.exports import repr_html, to_csv, to_dict, to_markdown
from attnlab.experiments.results import Comparison
from support.comparisons import EFFECTS, make_comparison


def spoiled() -> Comparison:
    """A comparison with numbers that JSON does not have."""
    comparison = make_comparison(diverged={"cosine": (1,)})
    arm = comparison.arm("cosine")
    cell = dataclasses.replace(arm.runs[1], curve=((55, math.nan), (110, math.inf)))
    arms = tuple(
        dataclasses.replace(found, runs=(found.runs[0], cell, *found.runs[2:])) if found is arm else found
        for found in comparison.arms
    )
    return dataclasses.replace(comparison, arms=arms)


def test_json_is_strict_and_whole() -> None:
    comparison = spoiled()
    data = json.loads(json.dumps(to_dict(comparison), allow_nan=False), parse_constant=pytest.fail)
    assert [one["arm"] for one in data["verdicts"]] == ["tied-kv", "cosine", "cosine-learned"]
    first = data["verdicts"][0]
    assert first["verdict"] == "worse"
    assert first["percent"]["mean"] == pytest.approx(100 * math.expm1(first["mean"]))
    assert first["worth"] < 1
    assert [len(arm["runs"]) for arm in data["arms"]] == [8, 8, 8, 8]
    assert data["arms"][2]["runs"][1]["outcome"] == "diverged"
    assert data["arms"][2]["runs"][1]["loss"] is None
    assert data["plan"]["seeds"] == list(range(8))
    assert data["looks"][0]["number"] == 1


def test_csv_has_a_line_for_each_run_and_differences_by_seed() -> None:
    comparison = spoiled()
    lines = list(csv.DictReader(io.StringIO(to_csv(comparison))))
    assert len(lines) == 32
    judged = {one.arm: one for one in comparison.judgements}
    mine = [line for line in lines if line["arm"] == "tied-kv"]
    assert [float(line["difference"]) for line in mine] == pytest.approx(judged["tied-kv"].differences)
    assert {float(line["difference"]) for line in lines if line["arm"] == "softmax"} == {0.0}
    lost = next(line for line in lines if line["outcome"] == "diverged")
    assert (lost["arm"], lost["seed"], lost["loss"], lost["difference"]) == ("cosine", "1", "", "")
    assert lost["message"] == "the loss was not a number at step 117"
    assert all(line["command"].startswith("attnlab train") and line["spec_hash"] for line in lines)
    assert next(line for line in lines if line["arm"] == "tied-kv")["norm explains"]
    assert {line["norm explains"] for line in lines if line["arm"] == "cosine"} == {""}


def test_csv_where_the_baseline_diverged() -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv(make_comparison(diverged={"softmax": (0,)})))))
    assert {line["difference"] for line in lines if line["seed"] == "0"} == {""}


def test_markdown_is_a_table_under_the_verdict() -> None:
    text = to_markdown(make_comparison())
    blocks = text.split("\n\n")
    assert blocks[0].startswith("Against softmax")
    table = blocks[2].splitlines()
    assert table[0].startswith("| variant | verdict | Δ loss (nats) |")
    assert table[1].startswith("| :-- | :-- | --: |")
    assert len({line.count("|") for line in table}) == 1
    assert len(table) == 2 + 4
    assert "| **worse** |" in text
    assert "interim analysis 1 of 2" in text


def renamed(name: str) -> Comparison:
    """A comparison whose only variant is called so."""
    comparison = make_comparison(("tied-kv",), seeds=3)
    judgement = dataclasses.replace(comparison.judgements[0], arm=name)
    arm = comparison.plan.arms[1].model_copy(update={"name": name})
    plan = comparison.plan.model_copy(update={"arms": (comparison.plan.arms[0], arm)})
    arms = (comparison.arms[0], dataclasses.replace(comparison.arms[1], arm=arm))
    return dataclasses.replace(comparison, plan=plan, arms=arms, judgements=(judgement,))


def test_a_name_with_a_bar_does_not_break_the_table() -> None:
    assert "| a\\|b |" in to_markdown(renamed("a|b"))


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.found.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.found.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open.pop() != tag:
            pass


def test_a_notebook_shows_the_verdict_without_a_script() -> None:
    comparison = make_comparison(tuple(EFFECTS)[:8], seeds=10, diverged={"relu": (3,)})
    html = repr_html(comparison)
    tags = Tags(html)
    assert tags.open == []
    assert not {"script", "style", "link", "img", "iframe"} & set(tags.found)
    assert "http" not in html
    assert len(html) < 60_000
    assert tags.found.count("circle") == sum(len(one.differences) for one in comparison.judgements)
    assert "Against softmax" in html
    assert "1 diverged" in html


def test_names_stay_text_in_a_notebook() -> None:
    html = repr_html(renamed("<img src='x'>"))
    assert "img" not in Tags(html).found
    assert html.count("&lt;img") >= 3
