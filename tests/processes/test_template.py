"""A template: copies that answer, end and are killed like other children, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab.errors import AttnlabError
from attnlab.processes.async_child import AsyncChild
from attnlab.processes.child import Child, ChildError, ChildTimeoutError
from attnlab.processes.template import CAN_COPY, Template
from attnlab.storage.disk import is_alive

pytestmark = pytest.mark.skipif(not CAN_COPY, reason="only Linux has copies of a process that its starter can watch")

ECHO = """
import os, sys, time
from attnlab.processes.template import serve_copies

made_by = os.getpid()
told = None

def prepare(threads):
    global told
    told = threads

def answer(question):
    print("talk")  # must not get between the answers
    if question["do"] == "die":
        os._exit(3)
    if question["do"] == "sleep":
        time.sleep(60)
    return {"echo": question["do"], "template": made_by, "threads": told}

serve_copies(answer, int(sys.argv[-1]), prepare)
"""

OWNER = """
import sys, time
from attnlab.processes.child import Child
from attnlab.processes.template import Template

template = Template("echo_template")
child = Child(template.copy(), name="the echo", keep_stderr=False)
child.ask(do="start")
print(template.pid, child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Template]:
    """A template whose copies echo questions."""
    (tmp_path / "echo_template.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    made = Template("echo_template")
    yield made
    made.close()


def await_death(*pids: int) -> None:
    end = time.monotonic() + 30
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < end, f"still there: {pids}"
        time.sleep(0.02)


def test_copies_answer_side_by_side(template: Template) -> None:
    with Child(template.copy(1), name="one") as one, Child(template.copy(), name="two") as two:
        assert one.ask() == two.ask() == {}, "both are ready"
        first, second = one.ask(do="a"), two.ask(do="b")
        assert (first["echo"], second["echo"]) == ("a", "b")
        assert (first["threads"], second["threads"]) == (1, None)
        assert first["template"] == second["template"] == template.pid != one.pid
        assert len({one.pid, two.pid, template.pid}) == 3
        assert os.getpgid(one.pid) == one.pid, "Ctrl-C in the terminal is not for a copy"
        pids = one.pid, two.pid
    await_death(*pids)
    assert template.pid is not None


def test_a_copy_that_dies_or_is_killed_is_told(template: Template) -> None:
    with Child(template.copy(), name="the echo") as child:
        for _ in range(2):  # it stays dead
            with pytest.raises(ChildError, match=r"^the echo ended and said nothing$") as caught:
                child.ask(do="die")
            assert caught.value.died
        assert child.has_ended
    with Child(template.copy(), name="the echo") as child:
        with pytest.raises(ChildTimeoutError, match="took too long to answer, and was killed"):
            child.put({"do": "sleep"}, seconds=0.2)
        assert child.has_ended
        await_death(child.pid)


def test_a_template_that_was_killed_is_replaced(template: Template) -> None:
    with Child(template.copy(), name="one") as one:
        before = template.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        with Child(template.copy(), name="two") as two:
            assert two.ask(do="b")["template"] == template.pid != before
            assert one.ask(do="a")["template"] == before, "its copies live on"


@pytest.mark.usefixtures("template")
def test_nothing_outlives_the_owner() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_alive, pids))
        owner.kill()
    await_death(*pids)


def test_the_asyncio_face(template: Template) -> None:
    async def use() -> None:
        deaths: list[str] = []
        child = AsyncChild(template, "the echo", seconds=30, threads=2, idle=0.1, on_death=deaths.append)
        assert (await child.ask("hello", do="a"))["threads"] == 2
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert (await child.ask("hello", do="b"))["echo"] == "b"
        assert deaths == ["the echo"]
        while child.pid is not None:  # it ends when it is idle
            await asyncio.sleep(0.02)
        assert (await child.ask("hello", do="c"))["echo"] == "c"
        await child.close()

    asyncio.run(use())


def test_one_that_does_nothing_makes_room_for_another(template: Template) -> None:
    async def use() -> None:
        async def make_room() -> None:
            for one in (idle, busy):
                await one.end_if_idle(0.0)

        idle, busy = (AsyncChild(template, name, seconds=30) for name in ("idle", "busy"))
        await idle.ask("hello", do="a")
        await busy.ask("hello", do="a")
        sleeping = asyncio.ensure_future(busy.ask("hello", do="sleep"))
        await asyncio.sleep(0)  # it is asked now
        new = AsyncChild(template, "new", seconds=30, on_ask=make_room)
        assert (await new.ask("hello", do="b"))["echo"] == "b"
        assert idle.pid is None
        assert busy.pid is not None, "it is at work"
        assert (await idle.ask("hello", do="c"))["echo"] == "c", "it starts again when it is asked"
        await idle.end_if_idle(60.0)
        assert idle.pid is not None, "it has not been idle for so long"
        await asyncio.gather(*(one.close() for one in (idle, busy, new)))
        with pytest.raises(AttnlabError, match="it was stopped"):
            await sleeping

    asyncio.run(use())
