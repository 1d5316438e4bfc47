"""A child process: answers, errors, progress, time limits, and its death."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from attnlab.errors import AttnlabError
from attnlab.processes import child as child_module
from attnlab.processes.async_child import AsyncChild, WithdrawnError
from attnlab.processes.child import Child, ChildError, ChildTimeoutError
from attnlab.storage.disk import is_alive

ECHO = """
from attnlab.errors import SpecError
from attnlab.processes.child import report_progress, serve

def answer(question):
    print("talk")  # must not get between the answers
    if question["do"] == "die":
        import os
        print("last words", flush=True)
        os._exit(3)
    if question["do"] == "die once":
        import os, pathlib
        marker = pathlib.Path(question["marker"])
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), 9)
    if question["do"] == "sleep":
        import time
        time.sleep(60)
    if question["do"] == "report":
        for done in range(4):
            report_progress("work", done, 3)
    if question["do"] == "refuse":
        raise SpecError("no", hint="ask nicely")
    if question["do"] == "fail":
        raise RuntimeError("broken")
    return {"echo": question["do"]}

serve(answer)
"""


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that echoes questions."""
    (tmp_path / "echo_child.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    return "echo_child"


def test_a_child_answers_and_its_errors_are_raised_here(echo: str) -> None:
    with Child(echo, name="the echo") as child:
        assert child.ask() == {}, "it is ready"
        assert child.ask(do="something") == {"echo": "something"}
        with pytest.raises(ChildError, match=r"^the echo: no\n\nhint: ask nicely$"):
            child.ask(do="refuse")
        with pytest.raises(ChildError, match=r"^the echo: RuntimeError: broken$"):
            child.ask(do="fail")
        assert child.ask(do="more") == {"echo": "more"}
        assert not child.has_ended
        for _ in range(2):  # it stays dead
            with pytest.raises(ChildError, match=r"the echo ended with code 3\n(.*\n)*  last words") as caught:
                child.ask(do="die")
            assert caught.value.died
    child.close()  # twice is no mistake
    assert child.has_ended


def test_a_child_that_never_starts_is_told(tmp_path: Path) -> None:
    with (
        Child("no_such_module_at_all", name="nobody", environment={"PYTHONPATH": str(tmp_path)}) as child,
        pytest.raises(ChildError, match="No module named no_such_module_at_all"),
    ):
        child.ask(do="something")


def test_a_large_question_gets_a_large_answer(echo: str) -> None:
    text = "x" * 3_000_000
    with Child(echo, name="the echo") as child:
        assert child.ask(do=text) == {"echo": text}


def test_progress_comes_before_the_answer(echo: str) -> None:
    told: list[str] = []
    with Child(echo, name="the echo") as child:
        assert child.put({"do": "report"}, on_progress=told.append) == {"echo": "report"}
        assert child.ask(do="report") == {"echo": "report"}
    assert told[0] == "work: 0 of 3"
    assert told[-1] == "work: 3 of 3"


def test_a_child_that_takes_too_long_is_killed(echo: str) -> None:
    with Child(echo, name="the echo") as child:
        child.ask()
        begin = time.monotonic()
        with pytest.raises(ChildTimeoutError, match="the echo took too long") as caught:
            child.put({"do": "sleep"}, seconds=0.2)
        assert time.monotonic() - begin < 30
        assert caught.value.died
        assert child.has_ended


def test_a_child_that_does_not_end_is_killed(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "_SECONDS_TO_END", 0.1)
    child = Child(echo, name="the echo", keep_stderr=False)
    child.ask()
    with pytest.raises(ChildTimeoutError):
        child.put({"do": "sleep"}, seconds=0)
    child.close()
    slow = Child(echo, name="the echo")
    slow.close()  # it is still importing
    assert not is_alive(slow.pid)


def test_the_asyncio_face(echo: str) -> None:
    async def use() -> None:
        one = AsyncChild(echo, "the echo", seconds=60)
        assert (await asyncio.gather(*(one.ask("t", do=word) for word in "abc"))) == [{"echo": word} for word in "abc"]
        first = one.pid
        with pytest.raises(AttnlabError, match=r"^RuntimeError: broken$"):
            await one.ask("t", do="fail")
        assert one.pid == first
        reporting = asyncio.ensure_future(one.ask("t", owner="me", do="report"))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(one.ask("t", owner="you", do="a"))
        await asyncio.sleep(0)
        assert one.progress("you") == "waiting for 1 earlier question"
        assert (await reporting, await waiting, one.progress("me")) == ({"echo": "report"}, {"echo": "a"}, "")
        with pytest.raises(AttnlabError, match="the echo died over this"):
            await one.ask("t", do="die")
        assert one.pid is None
        with pytest.raises(AttnlabError, match=r"more than 0\.2 seconds"):
            await one.ask("t", do="sleep", seconds=0.2)
        cancelled = asyncio.ensure_future(one.ask("t", do="given up"))
        await asyncio.sleep(0.01)
        cancelled.cancel()
        assert await one.ask("t", do="next") == {"echo": "next"}, "not the answer to the question before"
        asking = asyncio.ensure_future(one.ask("t", do="sleep"))
        await asyncio.sleep(0.05)
        await one.close()
        with pytest.raises(AttnlabError, match="it was stopped"):
            await asking
        with pytest.raises(AttnlabError, match="it was stopped"):
            await one.ask("t", do="more")

    asyncio.run(use())


def test_a_child_that_was_killed_is_replaced_and_asked_again(echo: str, tmp_path: Path) -> None:
    async def use() -> None:
        deaths: list[str] = []
        one = AsyncChild(echo, "the echo", seconds=60, once=["change"], on_death=deaths.append)
        assert await one.ask("read", do="die once", marker=str(tmp_path / "first")) == {"echo": "die once"}
        assert deaths == ["the echo"]
        with pytest.raises(AttnlabError, match="the echo died over this"):
            await one.ask("change", do="die once", marker=str(tmp_path / "second"))
        assert deaths == ["the echo"], "what changes something is not asked twice"
        await one.ask("change", do="a")
        assert one.pid is not None
        os.kill(one.pid, signal.SIGKILL)
        while not one._child.has_ended:  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
        assert await one.ask("change", do="b") == {"echo": "b"}, "it had been asked nothing"
        assert deaths == ["the echo"] * 2
        await one.close()

    asyncio.run(use())


def test_questions_are_withdrawn_and_replaced(echo: str) -> None:
    async def use() -> None:
        one = AsyncChild(echo, "the echo", seconds=60)
        await one.ask("t", do="a")
        first = one.pid
        sleeping = asyncio.ensure_future(one.ask("t", owner="ann/exhibit", do="sleep"))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(one.ask("t", owner="bob/plan", do="b"))
        await asyncio.sleep(0)
        newer = asyncio.ensure_future(one.ask("t", owner="bob/plan", do="c"))
        with pytest.raises(WithdrawnError):
            await waiting
        one.withdraw("an")  # which is no owner's whole name
        assert not sleeping.done()
        one.withdraw("ann")
        with pytest.raises(WithdrawnError):
            await sleeping
        assert await newer == {"echo": "c"}
        assert one.pid != first, "what a visitor who left asked for is no longer computed"
        await one.close()

    asyncio.run(use())
