"""The playground's numbers: the sheet's digits, any variant, links that hold everything, exports that say the same."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

from attnlab.attention import AttentionSpec, variants
from attnlab.errors import AttnlabError, InputError, SpecError, UnknownNameError
from attnlab.studio.matrices import number_text, read_number, read_whole, typed_text
from attnlab.studio.work import playground
from attnlab.studio.work.first import first_answer
from attnlab.studio.work.playground import describe, presets
from attnlab.studio.work.state import State

PRESETS = {one["name"]: one for one in presets()["presets"]}
SHEET = PRESETS["Worked example"]["state"]

WITHOUT_SCORES = {"linear", "gated-linear", "gated-delta", "differential"}


def shown(rows: list[list[float]]) -> list[list[str]]:
    return [[number_text(value) for value in row] for row in rows]


def test_the_sheet_to_every_digit() -> None:
    steps = playground.attend(SHEET)["steps"]
    assert steps["query"] == [[[2, 3, -5], [-1, 0, -2], [1, -2, 8]]]
    assert steps["key"] == [[[-6, 0, 1], [0, 0, 1], [4, 0, -3]]]
    assert steps["value"] == [[[16, 27], [-8, 0], [8, -18]]]
    assert steps["scores"][0][2] == [2, 8, -20]
    assert shown(steps["weights"][0])[2] == ["0.00247", "0.99753", "6.90e−13"]
    assert shown(steps["output"][0])[2] == ["−7.94066", "0.06676"]


def test_an_answer_is_json() -> None:
    json.dumps(playground.attend(SHEET), allow_nan=False)
    json.dumps(playground.form(), allow_nan=False)
    json.dumps(presets(), allow_nan=False)


@pytest.mark.parametrize("name", [one.name for one in variants()])
def test_every_variant_can_be_chosen_and_its_export_says_the_same(name: str) -> None:
    answer = playground.vary(SHEET if name in WITHOUT_SCORES else {**SHEET, "scale": 0.5}, name)
    program: dict[str, Any] = {"__name__": "exported"}
    exec(playground.export(answer["state"])["text"], program)
    for step, numbers in answer["steps"].items():
        found = getattr(program["steps"], step)
        if numbers is None:
            assert found is None
        else:
            assert torch.equal(found, torch.tensor(numbers, dtype=torch.float64)), step


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_every_preset_works_and_its_link_brings_it_back(preset: dict[str, Any]) -> None:
    answer = playground.attend(preset["state"])
    again = playground.attend(link=answer["link"])
    assert again == answer
    assert preset["see"]


def test_presets_show_what_they_say() -> None:
    average = playground.attend(PRESETS["Averaging two values"]["state"])["steps"]["output"][0][0]
    assert average == pytest.approx([1, 2], abs=1e-3)
    built = playground.attend(PRESETS["With K, Q and V it can"]["state"])["steps"]["output"][0]
    assert built[1] == pytest.approx([0, 4, 0, 0], abs=1e-4)  # u_b
    assert built[0] == pytest.approx([0, 4, -4, 0], abs=1e-4)  # u_b − u_c
    own = playground.attend(PRESETS["Identity attention"]["state"])["steps"]["output"][0][1]
    assert own == pytest.approx([4, 0, 0, 0], abs=1e-4)  # u_a
    masked = playground.attend(PRESETS["Masked"]["state"])
    assert masked["steps"]["weights"][0][0] == [1, 0, 0]
    assert masked["visible"][0] == [True, False, False]
    long = playground.attend(PRESETS["Length draws attention"]["state"])["steps"]["scores"][0]
    assert long[0][1] == 2 * long[0][0]


def test_the_nearest_that_is_possible_is_taken_and_told() -> None:
    answer = playground.vary(SHEET, "tied-kv")
    assert answer["spec"]["value_width"] == 3
    assert "must be equal" in answer["note"]
    answer = playground.change(SHEET, {"normaliser": {"kind": "entmax", "alpha": 1.3}})
    assert answer["note"] == ""
    assert answer["spec"]["normaliser"] == {"kind": "entmax", "alpha": 1.3}


def test_changing_a_field() -> None:
    two = playground.change(SHEET, {"num_heads": 2})
    assert two["spec"]["num_key_value_heads"] == 2, "what was derived is derived again"
    assert [len(row) for row in two["state"]["projections"]["query"]] == [6, 6]
    assert two["state"]["projections"]["query"][0][:3] == [1, 0, 2], "what fits is kept"
    dense = playground.change(SHEET, {"score": {"kind": "synthesizer-dense"}})
    assert dense["steps"]["key"] is None
    assert playground.change(dense["state"], {"score": {"kind": "dot"}})["steps"] == playground.attend(SHEET)["steps"]
    with pytest.raises(UnknownNameError, match="field of the form"):
        playground.change(SHEET, {"bias": True})
    with pytest.raises(SpecError, match="have 18 columns"):
        playground.change(SHEET, {"num_heads": 6})


def test_resizing() -> None:
    larger = playground.resize(SHEET, 5, 4)
    assert larger["state"]["tokens"] == ["x1", "x2", "x3", "x4", "x5"]
    assert larger["state"]["x"][0][:2] == [2, 3]
    assert len(larger["steps"]["weights"][0]) == 5
    back = playground.resize(larger["state"], 3, 2)
    assert back["state"]["x"] == SHEET["x"]
    for tokens, width in ((0, 2), (9, 2), (3, 0), (3, 17)):
        with pytest.raises(SpecError, match="do not fit"):
            playground.resize(SHEET, tokens, width)


def test_scale_and_temperature_multiply_the_scores() -> None:
    sharp = playground.attend({**SHEET, "scale": 3, "temperature": 2})
    assert sharp["steps"]["scores"][0][2] == [3, 12, -30]
    assert "s_j = 1.5 · q·k" in sharp["equations"]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"tokens": ["a"] * 9},
        {"x": []},
        {"x": [[1, 2], [3]]},
        {"x": [[1, 2]]},
        {"x": [[float("nan"), 2], [1, 2], [1, 2]]},
        {"x": [[1e9, 2], [1, 2], [1, 2]]},
        {"x": "no"},
        {"tokens": ["a" * 25, "b", "c"]},
        {"scale": 0},
        {"temperature": -1},
        {"projections": {"other": [[1]]}},
        {"projections": {"query": [[1], [1, 2]]}},
        {"spec": {"score": "nothing"}},
        {"spec": {"unknown": 1}},
        {"spec": {"num_heads": 10**9}},
        {"spec": {"key_width": 10**9}},
        {"extra": 1},
    ],
)
def test_a_spoilt_state_is_refused_in_words(spoilt: dict[str, Any]) -> None:
    with pytest.raises(AttnlabError) as refused:
        playground.attend({**SHEET, **spoilt})
    assert str(refused.value)


@pytest.mark.parametrize("link", ["", "a", "!!", "é", "A" * 400, "eNo", None])
def test_a_spoilt_link_is_refused_in_words(link: str | None) -> None:
    with pytest.raises(AttnlabError):
        playground.attend(link=link)


def test_a_link_that_unpacks_into_a_flood_is_refused() -> None:
    import base64
    import zlib

    flood = base64.urlsafe_b64encode(zlib.compress(b"[" * 10_000_000)).decode()
    with pytest.raises(InputError, match="holds no state"):
        State.from_link(flood)
    nested = base64.urlsafe_b64encode(zlib.compress(b"[" * 90_000)).decode()
    with pytest.raises(InputError, match="holds no state"):
        State.from_link(nested)


def test_the_form_knows_every_field_and_kind() -> None:
    fields = {field["name"]: field for field in describe(AttentionSpec)}
    assert fields.keys() == AttentionSpec.model_fields.keys()
    kinds = {one["kind"]: one["fields"] for one in fields["normaliser"]["kinds"]}
    assert set(kinds) >= {"softmax", "sigmoid", "entmax"}
    assert kinds["entmax"] == [
        {"name": "alpha", "label": "alpha", "optional": False, "type": "real", "words": [], "least": 1, "most": 2}
    ]
    assert fields["mask"]["type"] == "group"
    assert fields["sharing"]["words"][:2] == ["none", "key-value"]
    assert fields["position"]["optional"]
    assert fields["bias"]["type"] == "switch"
    assert fields["num_heads"]["least"] == 1


def test_numbers_as_they_are_printed_and_read() -> None:
    assert [number_text(value) for value in (0, -3, 0.25, 1e-5, 123456789, float("inf"), "nan")] == [
        "0",
        "−3",
        "0.25",
        "1.00e−5",
        "1.23e8",
        "inf",
        "nan",
    ]
    assert [read_number(text) for text in ("2", " −1,5 ", "1/4", "1e-3")] == [2, -1.5, 0.25, 0.001]
    for value in (3.0, -0.1, 1e-9, 1e12, 1 / 3):
        assert read_number(typed_text(value)) == value
    for text in ("", "x", "1/0", "inf", "nan", "1e999", "--1"):
        with pytest.raises(InputError, match="is no number"):
            read_number(text)
    assert read_whole(" 12 ", "n", 1, 12) == 12
    for text in ("", "0", "13", "1.5", "x", "9" * 50, "-"):
        with pytest.raises(InputError, match="n is"):
            read_whole(text, "n", 1, 12)


def test_the_first_numbers_need_no_pytorch_and_are_the_same() -> None:
    quick: dict[str, Any] = first_answer()
    exact: dict[str, Any] = playground.attend(SHEET)
    assert quick["state"].keys() == exact["state"].keys()
    for field in ("used", "group", "equations", "visible"):
        assert quick[field] == exact[field], field
    for name, matrices in exact["steps"].items():
        assert shown(quick["steps"][name][0]) == shown(matrices[0]), name
    program = "import sys, attnlab.studio.work.first as one; one.first_answer(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_changes_that_are_no_object_are_refused() -> None:
    with pytest.raises(InputError, match="changes are an object, got 7"):
        playground.change(SHEET, 7)  # type: ignore[arg-type]
