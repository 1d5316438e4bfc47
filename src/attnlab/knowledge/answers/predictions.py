"""What a model answered, as a table that any program reads."""

from __future__ import annotations

from pathlib import Path

from attnlab.knowledge.answers.evaluating import Evaluation
from attnlab.storage.disk import refusal, replace_file

HEADINGS = ("question", "expected", "answer", "right", "probability", "length_normalised", "agreement", "documents")


def write_predictions(path: Path, found: Evaluation) -> None:
    """One line for each question, with tabs between the columns."""
    lines = ["\t".join(HEADINGS)]
    for pair, answer, right, exposure in zip(found.pairs, found.answers, found.right, found.exposures, strict=True):
        agreement = "" if answer.agreement is None else f"{answer.agreement:.3g}"
        numbers = [f"{answer.probability:.6g}", f"{answer.length_normalised:.6g}", agreement]
        named = "" if exposure is None else str(exposure)
        lines.append("\t".join([pair.question, pair.answer, answer.text, str(int(right)), *numbers, named]))
    try:
        replace_file(path, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise refusal(f"{path} cannot be written", error) from error
