"""The process of one contestant in a race: `python -m attnlab.bench.races.contestant ENTRY`, the entry being JSON.

Other versions of attnlab start this module by its name. Asked to train or to generate a given amount, it returns the
seconds that this took; asked for its peak, the bytes of its peak memory. The first answer includes everything that is
done once, such as compiling.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from attnlab.bench.processes import own_bytes
from attnlab.bench.races.contenders import Contender, Matmul, NanoGpt, Ours, Transformers
from attnlab.bench.races.race import RaceEntry
from attnlab.processes.child import serve

KINDS: dict[str, type[Contender]] = {
    "attnlab": Ours,
    "nanogpt": NanoGpt,
    "transformers": Transformers,
    "matmul": Matmul,
}


class ContenderAnswers:
    """Answers the requests to one contender."""

    def __init__(self, entry: RaceEntry) -> None:
        self._contender = KINDS[entry.kind](entry)

    def __call__(self, question: Mapping[str, Any]) -> dict[str, float]:
        begin = time.perf_counter()
        if question["do"] == "peak":
            return {"bytes": own_bytes(peak=True)}
        if question["do"] == "train":
            seconds = self._contender.train(question["count"])
        else:
            seconds = sum(self._contender.write(question["tokens"]) for _ in range(question["count"]))
        return {"seconds": seconds, "with_beginning": time.perf_counter() - begin}


if __name__ == "__main__":
    serve(ContenderAnswers(RaceEntry.model_validate_json(sys.argv[1])))
