"""Equations as MathML: all that attnlab states can be set, nothing is lost, and what is no equation stays text."""

from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ET

import pytest

from attnlab.attention import variants
from attnlab.exhibits import exhibits
from attnlab.pages import Equations, Page, Section, equation_html, equations_html, render

STATED = sorted(
    {line for one in variants() for line in one.equations()}
    | {line for one in exhibits() for line in one.equation.splitlines()}
)


def parsed(text: str) -> ET.Element:
    return ET.fromstring(f"<p>{equation_html(text)}</p>")


def mathml(text: str) -> str:
    """The MathML of a text that is one equation, without the outer element and without rows."""
    inner = re.sub(r"^<math[^>]*>|</math>$", "", str(equation_html(text)))
    return re.sub(r"</?mrow>|<mspace[^>]*></mspace>", "", inner)


def letters(text: str) -> list[str]:
    """What must be left of an equation: its letters and digits, also those of scripts, in any order."""
    plain = unicodedata.normalize("NFKD", text)
    return sorted(one for one in plain if one.isalnum() and one not in "ΣΠ")


@pytest.mark.parametrize("text", STATED)
def test_every_equation_of_the_catalogue_and_of_the_exhibits_is_set(text: str) -> None:
    root = parsed(text)
    maths = root.findall("math")
    assert maths
    assert all(len(one) for one in maths)
    assert letters("".join(root.itertext())) == letters(text)
    # Brackets may go, marks that have become structure may not stay.
    assert not set("_√/") & set("".join(root.itertext()))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("q·k / √D_k", "<mfrac><mi>q</mi><mo>·</mo><mi>k</mi><msqrt><msub><mi>D</mi><mi>k</mi></msub></msqrt></mfrac>"),
        ("e^s_j", "<msup><mi>e</mi><msub><mi>s</mi><mi>j</mi></msub></msup>"),
        ("e^−g", "<msup><mi>e</mi><mo>−</mo><mi>g</mi></msup>"),
        ("W_Qᵀ", "<msubsup><mi>W</mi><mi>Q</mi><mi>T</mi></msubsup>"),
        ("2D", "<mn>2</mn><mi>D</mi>"),
        (
            "a / rms(o) b",
            '<mfrac><mi>a</mi><mi>rms</mi><mo stretchy="false">(</mo><mi>o</mi><mo stretchy="false">)</mo>'
            "</mfrac><mi>b</mi>",
        ),
        ("(a + b)/2", "<mfrac><mi>a</mi><mo>+</mo><mi>b</mi><mn>2</mn></mfrac>"),
        ("Σ a / Σ b", "<mfrac><mo>∑</mo><mi>a</mi><mo>∑</mo><mi>b</mi></mfrac>"),
        ("min_j a", "<munder><mi>min</mi><mi>j</mi></munder><mi>a</mi>"),
        ("x = −y", '<mi>x</mi><mo>=</mo><mo form="prefix">−</mo><mi>y</mi>'),
        ("x̂", '<mover accent="true"><mi>x</mi><mo>^</mo></mover>'),
    ],
)
def test_structure(text: str, wanted: str) -> None:
    assert mathml(text) == wanted


def test_words_stay_words_and_lines_may_break_between() -> None:
    root = parsed("p_j = e^s_j / (e^b + Σ e^s_l), each head with a b of its own")
    assert [one.get("alttext") for one in root.findall("math")] == ["p_j = e^s_j / (e^b + Σ e^s_l)", "b"]
    assert root[0].tail == ", each head with a "
    assert root[1].tail == " of its own"


@pytest.mark.parametrize(
    "text",
    [
        "f(x",
        "a ) b",
        "50 % of it.",
        "√",
        "a /",
        "",
        "((" * 99,
        "^" * 99,
        "e^" * 99,
        "√" * 299,
        "e^" + "−" * 290,
        "a" * 301,
        "|a",
    ],
)
def test_what_is_no_equation_stays_text(text: str) -> None:
    root = parsed(text)
    assert "".join(root.itertext()) == text
    assert not root.findall("math")


def test_text_cannot_become_markup() -> None:
    html = str(equation_html('x_<img src=x> = "1" & <script>'))
    assert "<img" not in html
    assert "<script" not in html


def test_a_page_shows_lines_as_paragraphs() -> None:
    html = render(Page("A title", "A lead.", [Section("Equation", [Equations("a = b\n\nc = d")])]))
    assert str(equations_html("a = b\nc = d")) in html
    assert html.count("<math ") == 2
