"""A ladder of associative recall: shares of right answers, and no verdict where the baseline has not learned."""

from __future__ import annotations

from attnlab.experiments.reporting.recall import RecallRung, recall_csv, recall_page, recall_table, recall_words
from attnlab.pages import Figure


def rung(pairs: int, verdict: str, **accuracies: tuple[float | None, ...]) -> RecallRung:
    arms = [
        {"name": name, "parameters": 30_000, "runs": [_run(seed, share) for seed, share in enumerate(shares)]}
        for name, shares in accuracies.items()
    ]
    plan = {"context_length": 8 * pairs, "steps": 3000, "tokens": 1e6, "request": {"recipe": "fast"}}
    verdicts = [{"arm": name, "verdict": verdict} for name in list(accuracies)[1:]]
    return RecallRung(pairs, {"folder": "runs/one", "arms": arms, "verdicts": verdicts, "plan": plan})


def _run(seed: int, share: float | None) -> dict[str, object]:
    measures = {} if share is None else {"accuracy": share}
    return {"seed": seed, "outcome": "finished", "loss": 0.5, "command": "attnlab train", "measures": measures}


LADDER = (
    rung(4, "worse", softmax=(1.0, 0.98), tied=(0.6, 0.5)),
    rung(16, "equivalent", softmax=(0.1, 0.1), tied=(0.1, 0.2)),
)


def test_shares_and_verdicts() -> None:
    assert recall_table(LADDER).rows == [("softmax", "99.0 %", "10.0 %"), ("tied", "55.0 % worse", "15.0 %")]


def test_a_baseline_that_has_not_learned_is_named() -> None:
    first, *others = recall_words(LADDER)
    assert "30.0 k parameters over 2 paired seeds" in first
    assert [line.split(" of the queries")[0] for line in others] == ["With 16 pairs softmax itself answers 10.0 %"]


def test_an_arm_of_which_nothing_finished() -> None:
    lost = rung(4, "unstable", softmax=(1.0, 1.0), tied=(None, None))
    assert recall_table([lost]).rows[1] == ("tied", "– unstable")
    assert recall_csv([lost]).splitlines()[-1] == "4,tied,1,finished,0.5,,attnlab train"
    figure, *_ = recall_page([lost]).sections[0].content
    assert isinstance(figure, Figure)
    assert [trace.name for trace in figure.chart.data[::2]] == ["softmax", "tied"]
