"""What the pages share: workers with limits, settings that are refused, and the same words as the command line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from attnlab.cli import main
from attnlab.cli.options import CorpusOptions
from attnlab.errors import AttnlabError, InputError
from attnlab.experiments.request import Request
from attnlab.processes import async_child
from attnlab.processes.async_child import AsyncChild, BusyError
from attnlab.processes.template import CAN_COPY
from attnlab.studio.studio import Settings, Studio, command_of
from attnlab.studio.work.__main__ import TASKS, answer


def with_worker(use: Callable[[AsyncChild], Awaitable[Any]], **options: Any) -> Any:
    async def whole() -> Any:
        worker = AsyncChild("attnlab.studio.work", "the desk", **{"seconds": 60, "threads": 1, **options})
        try:
            return await use(worker)
        finally:
            await worker.close()

    return asyncio.run(whole())


def test_a_worker_answers_in_turn_and_tells_what_is_wrong() -> None:
    async def use(worker: AsyncChild) -> None:
        found = await asyncio.gather(*(worker.ask("presets") for _ in range(5)))
        assert all(one == found[0] for one in found)
        first = worker.pid
        with pytest.raises(AttnlabError, match="there is no variant called 'tied-kk'") as refused:
            await worker.ask("vary", state=found[0]["presets"][0]["state"], name="tied-kk")
        assert (refused.value.hint or "").startswith("did you mean 'tied-")
        with pytest.raises(AttnlabError, match="there is no task called 'nothing'"):
            await worker.ask("nothing")
        with pytest.raises(AttnlabError, match="TypeError"):
            await worker.ask("attend", rubbish=1)
        assert worker.pid == first, "a mistake does not end it"

    with_worker(use)


def test_a_worker_is_replaced_after_so_many_answers() -> None:
    deaths: list[str] = []

    async def use(worker: AsyncChild) -> list[int | None]:
        seen: list[int | None] = []
        for _ in range(5):
            await worker.ask("presets")
            seen.append(worker.pid)
        return seen

    first, second, third, fourth, fifth = with_worker(use, answers=2, on_death=deaths.append)
    assert first == second != third == fourth != fifth
    assert deaths == [], "nothing happened that visitors should know"


def test_what_takes_too_long_is_ended_and_the_next_is_answered() -> None:
    async def use(worker: AsyncChild) -> None:
        with pytest.raises(AttnlabError, match="more than 1e-06 seconds"):
            await worker.ask("presets", seconds=1e-6)
        assert worker.pid is None
        waiting = asyncio.ensure_future(worker.ask("presets"))  # which has to start anew, and so takes a while
        while worker.pid is None:
            await asyncio.sleep(0)
        worker.stop()
        with pytest.raises(AttnlabError, match="it was stopped"):
            await waiting
        assert (await worker.ask("presets"))["presets"]

    with_worker(use)


def test_too_many_questions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_child, "_MOST_WAITING", 2)

    async def use(worker: AsyncChild) -> None:
        waiting = [asyncio.ensure_future(worker.ask("presets")) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(BusyError, match="2 questions waiting"):
            await worker.ask("presets")
        await asyncio.gather(*waiting)

    with_worker(use)


def test_one_that_is_not_asked_is_let_go() -> None:
    async def use(worker: AsyncChild) -> None:
        await worker.ask("presets")
        for _ in range(200):
            await asyncio.sleep(0.05)
            if worker.pid is None:
                return
        raise AssertionError("it is still there")

    with_worker(use, idle=0.1)


def test_closing_while_an_idle_one_is_let_go_leaves_no_process() -> None:
    """The thread that would wait for its end has not begun when the child is closed."""

    async def use(worker: AsyncChild) -> None:
        executor = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(executor)
        await worker.ask("presets")
        child, busy = worker._child, threading.Event()
        executor.submit(busy.wait)
        while worker.pid is not None:
            await asyncio.sleep(0.01)
        closing = asyncio.ensure_future(worker.close())
        await asyncio.sleep(0.05)
        busy.set()
        await closing
        assert child is not None
        assert child.has_ended
        assert child._closed

    with_worker(use, idle=0.1)


def test_every_task_is_there() -> None:
    from importlib import import_module

    for place in TASKS.values():
        module, _, name = place.partition(":")
        assert callable(getattr(import_module(f"attnlab.studio.work.{module}"), name))
    with pytest.raises(AttnlabError, match="did you mean 'presets'"):
        answer({"task": "preset"})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"host": "0.0.0.0"}, "can be reached by other machines"),
        ({"host": "192.168.0.7"}, "can be reached by other machines"),
        ({"host": "nosuch.invalid"}, "is no known host"),
        ({"port": 70000}, "70000 is no port"),
        ({"port": -1}, "-1 is no port"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Settings(runs=tmp_path, **fields)


def test_loopback_and_exposed_studios(tmp_path: Path) -> None:
    plain = Settings(runs=tmp_path).access(8421)
    assert plain.hosts == {"127.0.0.1", "localhost", "::1"}
    assert not plain.any_address
    exposed = Settings(runs=tmp_path, host="0.0.0.0", exposed=True)
    assert exposed.access(8421).any_address
    assert "0.0.0.0" not in exposed.address(exposed.access(8421))
    assert Settings(runs=tmp_path, host="::1").address(plain).startswith("http://[::1]:8421/?token=")


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    first = Settings(runs=tmp_path, port=0).listen()
    taken = first.getsockname()[1]
    try:
        with pytest.raises(AttnlabError, match=f"cannot listen at port {taken}"):
            Settings(runs=tmp_path, port=taken).listen()
        with Settings(runs=tmp_path).listen() as free:
            assert free.getsockname()[1] != taken
    finally:
        first.close()


def test_the_command_line_refuses_in_the_same_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio", "--host", "0.0.0.0", "--no-browser"]) == 2
    error = capsys.readouterr().err
    assert "not encrypted" in error
    assert "expose" in error
    (tmp_path / "file").write_text("")
    assert main(["studio", "--runs", str(tmp_path / "file"), "--no-browser"]) == 2
    assert "is no folder" in capsys.readouterr().err


def test_a_request_becomes_the_command_that_asks_the_same(tmp_path: Path) -> None:
    request = Request(
        variants=("tied-kv", "cosine"),
        seeds=3,
        size="nano",
        steps=12,
        match="parameters",
        pilot=0,
        changes=("batch_size=4", "position=rope"),
    )
    words = command_of(request, tmp_path)
    assert words[:3] == ["compare", "tied-kv", "cosine"]
    assert words[-2:] == ["--out", str(tmp_path)]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options["--seeds"] == "3"
    assert options["--match"] == "parameters"
    assert options["--pilot"] == "0"
    assert words.count("--change") == 2
    assert "--recipe" not in options, "what is usual is not said"


def test_options_of_a_corpus_are_part_of_the_command(tmp_path: Path) -> None:
    request = Request(variants=("tied-kv",), corpus="mqar", corpus_options={"pairs": 8, "gap": 0.5}, steps=4)
    words = command_of(request, tmp_path)
    made = [words[place + 1] for place, word in enumerate(words) if word == "--corpus-option"]
    assert CorpusOptions(corpus_option=made).values == request.corpus_options


def test_a_comparison_that_has_a_plan_goes_on_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[list[str]] = []
    monkeypatch.setattr("attnlab.studio.studio.subprocess.Popen", lambda words, **_: launched.append(words[3:]))

    async def none(_: Studio) -> list[dict[str, Any]]:
        return []

    async def use() -> None:
        studio = Studio(Settings(runs=tmp_path))
        monkeypatch.setattr(Studio, "experiments", none)
        request = Request(variants=("tied-kv",), steps=4, size="nano")
        name = await studio.start(request)
        assert studio.has_comparison(name)
        assert not studio.has_comparison("0123456789abcdef")
        folder = tmp_path / "renamed-by-its-owner"  # which no request leads to
        folder.mkdir()
        with pytest.raises(AttnlabError, match="before there was a plan"):
            await studio.resume(folder.name)
        (folder / "plan.json").write_text("{}")
        await studio.resume(folder.name, 2)
        assert launched[0][:2] == ["compare", "tied-kv"]
        assert launched[1] == ["compare", str(folder), "--add-seeds", "2"]

    asyncio.run(use())


def test_a_comparison_whose_process_lives_is_starting_and_then_finishing(tmp_path: Path) -> None:
    class Alive:
        def poll(self) -> None:
            return None

    studio = Studio(Settings(runs=tmp_path))
    studio._started["one"] = Alive()  # type: ignore[assignment]
    seen = [studio._as_it_is({"folder": "one", "status": status})["status"] for status in ("finished", "stopped")]
    assert seen == ["starting", "starting"], "it was finished before, and more seeds were asked for"
    seen = [studio._as_it_is({"folder": "one", "status": status})["status"] for status in ("running", "finished")]
    assert seen == ["running", "finishing"]


def test_the_desk_starts_once_a_page_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def ask(task: str) -> None:
        asked.append(task)

    async def use(*, visited: bool) -> list[str]:
        asked.clear()
        studio = Studio(Settings(runs=tmp_path))
        monkeypatch.setattr(studio.desk, "ask", ask)
        studio.warm_up()
        await asyncio.sleep(0.05)
        before = list(asked)
        if visited:
            studio.page_stands.set()
        assert studio._warming is not None
        await studio._warming
        return before

    assert asyncio.run(use(visited=True)) == []
    assert asked == ["form"]
    monkeypatch.setattr("attnlab.studio.studio._LONGEST_ALONE", 0.1)
    assert asyncio.run(use(visited=False)) == []
    assert asked == ["form"], "it does not wait for a visitor for ever"


@pytest.mark.skipif(not CAN_COPY, reason="only where workers are copies are they soon there again")
def test_workers_that_do_nothing_make_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.studio.studio._REST", 0.0)

    async def use() -> None:
        studio = Studio(Settings(runs=tmp_path))
        try:
            for worker in (studio.desk, studio.bench, studio.stage):
                assert await worker.ask("form")
            assert studio.bench.pid is None
            assert studio.desk.pid is not None, "the desk must be quick"
        finally:
            await studio.close()

    asyncio.run(use())


def test_costs_that_were_asked_lately_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.studio.studio._KEPT_COSTS", 2)
    asked: list[int] = []

    async def ask(task: str, *, owner: str, question: dict[str, int]) -> dict[str, Any]:
        assert (task, owner) == ("cost", "me/cost")
        asked.append(question["n"])
        return {"page": f"costs of {question['n']}"}

    async def use() -> None:
        studio = Studio(Settings(runs=tmp_path))
        monkeypatch.setattr(studio.counter, "ask", ask)
        for n in (1, 2, 1, 3, 1, 2):
            assert await studio.cost({"n": n}, "me/cost") == {"page": f"costs of {n}"}

    asyncio.run(use())
    assert asked == [1, 2, 3, 2], "1 was asked lately, and 2 was given up for 3"


def test_kept_pages_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.studio.studio._KEPT_BYTES", 100)

    async def use() -> None:
        studio = Studio(Settings(runs=tmp_path))
        names = [studio.keep_page(f"page {number}") for number in range(40)]
        assert await studio.finished_page(names[-1]) == "page 39"
        with pytest.raises(AttnlabError, match="no such page"):
            await studio.finished_page(names[0])

    asyncio.run(use())


def test_the_cost_of_a_file_is_not_for_visitors(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(AttnlabError, match="there is no size called"):
        answer({"task": "cost", "question": {"size": str(tmp_path / "config.json")}})
