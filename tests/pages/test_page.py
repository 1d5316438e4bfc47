"""A page needs nothing but itself, says what it was given, and is the same each time."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import plotly.offline
import pytest

from attnlab.pages import (
    PALETTE,
    THEME,
    Details,
    Figure,
    Gallery,
    Note,
    Page,
    Part,
    Points,
    Section,
    Table,
    new_figure,
    prose,
    render,
    write_page,
)


class Reader(HTMLParser):
    """Collects tags with their attributes, and the text outside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.styles = ""
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside == "style":
            self.styles += data
        else:
            self.text += data


def chart(name: str = "series") -> Figure:
    figure = new_figure(x="time (ms)", y="loss (nats)", height=200)
    figure.add_bar(name=name, x=[1, 2], y=[3, 4])
    return Figure(figure, f"What {name} shows.")


def page(*content: Part) -> Page:
    return Page("A title", "A lead.", [Section("A heading", content)], {"Machine": "a small one"})


def test_everything_that_was_given_is_there() -> None:
    html = render(
        page("A paragraph.", chart(), Table(["name", "size"], [["one", "1.0"], ["two", "2.0"]], "A caption."))
    )
    text = Reader(html).text
    for words in ("A title", "A lead.", "A heading", "Machine", "a small one", "A paragraph.", "What series shows."):
        assert words in text
    for words in ("A caption.", "name", "size", "one", "1.0", "two", "2.0"):
        assert words in text


def test_nothing_is_loaded_from_anywhere() -> None:
    reader = Reader(render(page(chart(), Table(["a"], [["b"]]))))
    loading = {"src", "href", "srcset", "data", "poster", "action", "formaction", "background"}
    assert not [(tag, attributes) for tag, attributes in reader.tags if loading & attributes.keys()]
    assert not {"link", "iframe", "object", "embed", "img", "base"} & {tag for tag, _ in reader.tags}
    assert not re.search(r"@import|url\(|https?:", reader.styles)
    policy = next(
        attributes["content"]
        for tag, attributes in reader.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert "*" not in policy


def test_the_drawing_script_is_inside_once_and_only_if_needed() -> None:
    script = plotly.offline.get_plotlyjs()
    assert "</script" not in script.lower()
    html = render(page(chart("one"), chart("two")))
    assert html.count(script) == 1
    assert 'id="figure-1"' in html
    assert 'id="figure-2"' in html
    plain = render(page("Words alone."))
    assert "<script" not in plain
    assert len(plain) < 10_000


def test_the_same_page_is_the_same_file(tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        write_page(page(chart()), tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_text_stays_text() -> None:
    attack = '</script><script>alert("x")</script><img src=x>&'
    given = Page(
        attack, attack, [Section(attack, [attack, chart(attack), Table([attack], [[attack]], attack)])], {"a": attack}
    )
    others = page(Note(attack), Points([attack]), Details(attack, [attack]), Gallery([chart(attack)], attack))
    assert "img" not in {tag for tag, _ in Reader(render(others)).tags}
    assert Reader(render(others)).text.count(attack) >= 6
    reader = Reader(render(given))
    assert "img" not in {tag for tag, _ in reader.tags}
    assert len(reader.scripts) == len(Reader(render(page(chart()))).scripts)
    assert reader.text.count(attack) >= 7


def test_a_table_is_marked_up_for_those_who_cannot_see_it() -> None:
    reader = Reader(render(page(Table(["name", "size", "kind"], [["one", "1", "a"]], text_columns=(0, 2)))))
    heads = [attributes for tag, attributes in reader.tags if tag == "th"]
    assert [head["scope"] for head in heads] == ["col", "col", "col", "row"]
    assert [head.get("class") for head in heads] == ["text", None, "text", "text"]
    assert [attributes.get("class") for tag, attributes in reader.tags if tag == "td"] == [None, "text"]
    assert ("html", {"lang": "en"}) in reader.tags


def test_words_of_a_table_may_stand_out_besides_what_they_say() -> None:
    table = Table(["name", "verdict"], [["one", "worse"], ["two", "none"]], text_columns=(0, 1), tones={"worse": "bad"})
    cells = [attributes.get("class") for tag, attributes in Reader(render(page(table))).tags if tag == "td"]
    assert cells == ["text bad", "text"]


def test_a_table_without_headings_has_no_line_for_them() -> None:
    assert "<thead>" not in render(page(Table(["", ""], [["one", "1"]])))


def test_figures_of_a_gallery_are_drawn_in_their_order() -> None:
    html = render(page(chart("one"), Gallery([chart("two"), chart("three")], "Both."), chart("four")))
    places = [html.index(f'id="figure-{number}"') for number in (1, 2, 3, 4)]
    assert places == sorted(places)
    assert [html.index(f"What {name} shows.") for name in ("one", "two", "three", "four")] == sorted(
        html.index(f"What {name} shows.") for name in ("one", "two", "three", "four")
    )


def test_details_are_closed_until_somebody_opens_them() -> None:
    reader = Reader(render(page(Details("More", ["Words.", Points(["A point."])]))))
    assert ("details", {}) in reader.tags
    for words in ("More", "Words.", "A point."):
        assert words in reader.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("use `--size gpt2` here", "use <code>--size gpt2</code> here"),
        ("a ` alone", "a ` alone"),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("1.5 % of 2 ×", "1.5\u00a0% of 2\u00a0×"),
    ],
)
def test_prose_has_code_and_keeps_a_number_with_its_unit(text: str, expected: str) -> None:
    assert prose(text) == expected


def test_light_dark_and_paper() -> None:
    styles = Reader(render(page())).styles
    assert "prefers-color-scheme: dark" in styles
    assert "@media print" in styles


def test_a_figure_has_labelled_axes_in_the_one_look() -> None:
    figure = chart().chart
    assert figure.layout.xaxis.title.text == "time (ms)"
    assert figure.layout.yaxis.title.text == "loss (nats)"
    assert figure.layout.template.layout.colorway == THEME.layout.colorway == PALETTE


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", PALETTE)
def test_colours_stand_out_from_both_backgrounds(colour: str) -> None:
    backs = re.findall(r"--back: (#[0-9a-f]{6})", Reader(render(page())).styles)
    assert len(backs) == 3  # light, dark, paper
    assert all(contrast(colour, back) >= 3 for back in backs)  # what WCAG asks of graphics


def test_text_stands_out_from_its_background() -> None:
    styles = Reader(render(page())).styles
    for name in ("text", "soft", "good", "bad", "even"):
        pairs = re.findall(rf"--back: (#[0-9a-f]{{6}});.*?--{name}: (#[0-9a-f]{{6}})", styles, flags=re.DOTALL)
        assert len(pairs) == 3
        assert all(contrast(*pair) >= 4.5 for pair in pairs)
