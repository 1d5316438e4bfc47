"""Cases of each kind. The kind, the number of a case and the seed of the campaign decide all that happens in it."""

from __future__ import annotations

import errno
import functools
import json
import os
import random
import shutil
import signal
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.campaign import hostile, millions
from support.campaign.children import USUAL, Circumstances, Outcome, Running, run
from support.campaign.commands import Job, jobs
from support.campaign.digests import digest_of, lost
from support.campaign.judging import REFUSED, is_traceback, problems
from support.campaign.scenes import FOREIGN, Scene, other_user
from support.campaign.system_calls import Trouble
from support.campaign.tally import Tally
from support.campaign.values import draw_line

_SHOWN = 1500  # letters of an output in a failure


@dataclass(frozen=True)
class Reference:
    """How a job ends if nothing troubles it: its effects, and what is there afterwards."""

    effects: int
    digest: dict[str, str]


@dataclass
class Workshop:
    """What the cases of a campaign share: a folder, the scene in it, and how jobs end."""

    folder: Path
    scene: Scene
    seed: int
    facts: int
    small: bool = False
    _references: dict[str, Reference] = field(default_factory=dict)

    @functools.cached_property
    def before(self) -> dict[str, str]:
        """What is in every new scene."""
        return digest_of(self.scene.folder)

    @property
    def jobs(self) -> list[Job]:
        return [job for job in jobs(self.scene.names) if job.quick or not self.small]

    def reference(self, job: Job) -> Reference:
        """Return how a job ends; it is run when first asked for, and kept in a file."""
        path = self.folder / "references" / f"{job.name}.json"
        if job.name not in self._references and not path.exists():
            scene = self.scene.copy(self.folder / "reference")
            done = run(job.tokens, scene.folder, Circumstances(counted=True, stdin=job.stdin))
            assert done.code in job.codes, f"{job.name} ended with {done.code}: {done.out}{done.err}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"effects": len(done.effects), "digest": digest_of(scene.folder)}))
            shutil.rmtree(scene.folder)
        if job.name not in self._references:
            self._references[job.name] = Reference(**json.loads(path.read_text()))
        return self._references[job.name]

    def faults(self) -> list[tuple[Job, Trouble]]:
        """Return every fault: at each effect of each job an error once, and at each a full disk ever after."""
        found = []
        for job in self.jobs:
            for at in range(self.seed % job.every, self.reference(job).effects, job.every):
                found.append((job, Trouble(at, "error", errno.EIO)))
                found.append((job, Trouble(at, "error", errno.ENOSPC, for_ever=True)))
        random.Random(self.seed).shuffle(found)  # so that a part of them is a sample of all
        return found


class Case:
    """One case: a copy of the scene, random numbers of its own, and what happened."""

    def __init__(self, workshop: Workshop, kind: str, number: int) -> None:
        self.workshop, self.kind, self.number = workshop, kind, number
        self.name, self.tally = f"{kind}/{number}", Tally()
        self.chosen = random.Random(f"{workshop.seed}/{kind}/{number}")
        self.folder, self._shared = workshop.folder / "case", False

    def scene(self, owner: int | None = None) -> Scene:
        return self.workshop.scene.copy(self.folder, owner)

    def command(self, tokens: Sequence[str], how: Circumstances = USUAL, **more: object) -> Outcome:
        """Run a command, and judge what holds in any circumstances."""
        return self.judge(run(tokens, self.folder, how, **more), how)  # type: ignore[arg-type]

    def judge(self, outcome: Outcome, how: Circumstances = USUAL) -> Outcome:
        counts = self.tally.counts
        counts["commands"] += 1
        counts["too long"] += outcome.too_long
        counts["refusals"] += outcome.code == REFUSED
        counts["faults"] += bool(outcome.troubled)
        troubled = how.trouble is not None or how.after is not None
        for words in problems(outcome, signalled=troubled):
            self.fail("tracebacks" if is_traceback(outcome) else "other", words, outcome, how)
        return outcome

    def fail(self, kind: str, words: str, outcome: Outcome | None = None, how: Circumstances = USUAL) -> None:
        if outcome is not None:
            words += f"\n  attnlab {' '.join(map(repr, outcome.tokens))}   [{how.trouble or how.after or ''}]"
            words += f"\n  exit code {outcome.code}\n  {outcome.err[-_SHOWN:].strip()}"
        self.tally.fail(kind, words)

    def check_kept(self, outcome: Outcome, how: Circumstances = USUAL) -> dict[str, str]:
        """Check that nothing of the scene is lost; return what is there."""
        after = digest_of(self.folder)
        for words in lost(self.workshop.before, after):
            self.fail("lost", words, outcome, how)
        return after

    def stays_in(self, folder: Path) -> None:
        """Use a folder that several cases share."""
        self.folder, self._shared = folder, True

    def close(self) -> None:
        if self._shared:
            return
        for path in (self.folder, *self.folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o777)
        shutil.rmtree(self.folder, ignore_errors=True)


def values(case: Case) -> None:
    """Run six commands with good and bad values one after the other."""
    user = other_user(case.folder)
    scene = case.scene(user)
    for _ in range(6):
        line = draw_line(case.chosen, scene.names)
        how = Circumstances(user=user, seconds=line.seconds)
        done = case.command(line.tokens, how)
        if line.impossible and done.code == 0:
            case.fail("accepted", line.impossible, done)
    case.check_kept(done)


def faults(case: Case) -> None:
    """Let one effect of a command fail, and run the command again."""
    found = case.workshop.faults()
    _disturb(case, *found[case.number % len(found)])


def interruptions(case: Case) -> None:
    """Interrupt or kill a command at one of its effects or after a while, and run it again."""
    job = case.chosen.choice(case.workshop.jobs)
    number = case.chosen.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    effects = case.workshop.reference(job).effects
    if effects and case.chosen.random() < 0.7:
        _disturb(case, job, Trouble(case.chosen.randrange(effects), "signal", number))
    else:
        _disturb(case, job, after=(case.chosen.uniform(0, 0.6), number))


def _disturb(
    case: Case, job: Job, trouble: Trouble | None = None, after: tuple[float, signal.Signals] | None = None
) -> None:
    """Run a job that is disturbed: nothing is lost, and without the disturbance it ends as if there had been none."""
    case.scene()
    reference = case.workshop.reference(job)
    how = Circumstances(trouble, stdin=job.stdin, after=after)
    done = case.command(job.tokens, how)
    case.tally.counts["faults"] += after is not None
    now = digest_of(case.folder) if job.removes else case.check_kept(done, how)
    if done.code == 0 and now != reference.digest:
        case.fail("accepted", f"ended well with {_difference(reference.digest, now)}", done, how)
    again = case.command(job.tokens, replace(USUAL, stdin=job.stdin))
    now = digest_of(case.folder)
    if now != reference.digest:
        case.fail("lost", f"the next time it ended with {_difference(reference.digest, now)}", again, how)
    elif again.code not in job.codes and not job.removes:
        case.fail("lost", "the next time it failed", again, how)
    else:
        case.tally.counts["resumes"] += done.code != 0


def _difference(expected: dict[str, str], found: dict[str, str]) -> str:
    names = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return "; ".join(f"{name}: {found.get(name, 'nothing')[:60]!r}" for name in names)


def read_only(case: Case) -> None:
    """Run a command in a folder that may only be read, in whole or in part."""
    job = case.workshop.jobs[case.number % len(case.workshop.jobs)]
    case.scene()
    part = case.chosen.choice([".", "runs", "cache", "tmp"])
    for path in (case.folder, *case.folder.rglob("*")):
        inside = path.is_relative_to(case.folder / part)
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o555 if inside else 0o777)
    how = Circumstances(user=other_user(case.folder), stdin=job.stdin)
    done = case.command(job.tokens, how)
    if not job.removes:
        case.check_kept(done)


def clock(case: Case) -> None:
    """Run a command while the clock jumps, among files from other times."""
    job = case.workshop.jobs[case.number % len(case.workshop.jobs)]
    case.scene()
    for path in case.folder.rglob("*"):
        if not path.is_symlink():
            when = case.chosen.choice([0, 1e9, 4e9]) + case.chosen.uniform(0, 1e8)
            os.utime(path, (when, when))
    done = case.command(job.tokens, Circumstances(clock=case.number, stdin=job.stdin))
    now, expected = digest_of(case.folder), case.workshop.reference(job).digest
    if done.code not in job.codes or now != expected:
        case.fail("lost", f"ended with {_difference(expected, now)}", done)


def users(case: Case) -> None:
    """Let two users work in one folder at once, with the same command or two."""
    all_jobs = case.workshop.jobs
    first = case.chosen.choice(all_jobs)
    second = first if case.chosen.random() < 0.6 else case.chosen.choice(all_jobs)
    owner = other_user(case.folder)
    case.scene(owner)
    for path in (case.folder, *case.folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o777)
    guest = owner and FOREIGN + case.chosen.choice([0, 1])
    both = [
        Running(job.tokens, case.folder, Circumstances(user=user, stdin=job.stdin))
        for job, user in ((first, owner), (second, guest))
    ]
    ended = [case.judge(one.finish()) for one in both]
    if not first.removes and not second.removes:
        case.check_kept(ended[0])
    again = case.command(first.tokens, Circumstances(user=owner, stdin=first.stdin))
    now, expected = digest_of(case.folder), case.workshop.reference(first).digest
    if guest == owner and first is second and (again.code not in first.codes or now != expected) and not first.removes:
        case.fail("lost", f"the next time it ended with {_difference(expected, now)}", again)


KINDS: dict[str, Callable[[Case], None]] = {
    "values": values,
    "faults": faults,
    "interruptions": interruptions,
    "read_only": read_only,
    "clock": clock,
    "users": users,
    "hostile": hostile.hostile,
    "studio": hostile.studio,
    "facts": millions.facts,
}
