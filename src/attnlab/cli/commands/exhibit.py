"""Claims about attention, computed and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from attnlab.cli.figures import FiguresFolder, check_figures_folder, save_figures
from attnlab.cli.options import Flag, JsonFlag, Markdown, name_value_pairs
from attnlab.cli.printing import say, show, show_json
from attnlab.errors import AttnlabError
from attnlab.exhibits import Exhibit, Outcome, exhibit_named, exhibits
from attnlab.exhibits.pages import outcome_page
from attnlab.exhibits.terminal import Printer, Watcher
from attnlab.pages import Table, write_page
from attnlab.storage.files import check_writable
from attnlab.storage.records import to_plain


def exhibit(
    name: str | None = None,
    /,
    *,
    settings: Annotated[Sequence[str], Parameter(name="--set", negative="", show_default=False)] = (),
    out: Path | None = None,
    figures: FiguresFolder = None,
    everything: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    smoke: Flag = False,
    as_json: JsonFlag = False,
    markdown: Markdown = False,
) -> int:
    """List the exhibits in the order of a course, or run one: a claim, computed and checked.

    It ends with 1 if a check fails.

    Parameters
    ----------
    name
        The exhibit to run.
    settings
        A parameter of the exhibit, as in --set key_width=256; may be repeated.
    out
        Write an HTML page that works offline.
    everything
        Run all of them.
    smoke
        Those that train at a size that takes seconds.
    as_json
        Print everything as JSON: the list, or each check with its claim and figure.
    """
    if everything and name is not None:
        raise AttnlabError(f"--all runs every exhibit, and {name!r} is one of them", hint="leave out one of the two")
    if settings and name is None:
        raise AttnlabError("--set changes one exhibit, and none is named", hint="attnlab exhibit NAME --set …")
    if settings and smoke:
        raise AttnlabError("--smoke sets parameters of its own", hint="leave out --smoke, and --set all you want")
    if markdown and (as_json or name is not None or everything):
        raise AttnlabError("--markdown prints the list, and nothing else", hint="leave out the rest")
    if (out is not None or figures is not None or smoke) and name is None and not everything:
        raise AttnlabError("there is nothing to run", hint="name an exhibit, or say --all")
    if name is None and not everything:
        return _list(exhibits(), as_json=as_json, markdown=markdown)
    chosen = exhibits() if name is None else [exhibit_named(name)]
    pairs = name_value_pairs("--set", settings, "seed=1")
    given = {key.replace("-", "_"): value for key, value in pairs.items()}
    for one in chosen:
        one.parameters.parse(given)  # before any work
    if out is not None:
        check_writable(out)
    check_figures_folder(figures)
    outcomes = _run(chosen, given, smoke=smoke, whole=not everything, as_json=as_json)
    if out is not None:
        write_page(outcome_page(outcomes), out)
        say(f"wrote {out}")
    if figures is not None:
        save_figures(outcome_page(outcomes), figures)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def _list(chosen: Sequence[Exhibit[Any]], *, as_json: bool, markdown: bool) -> int:
    if as_json:
        show_json([one.describe() for one in chosen])
    elif markdown:
        rows = [
            [one.chapter, f"`{one.name}`", _links(one), one.claim, "<br>".join(one.equation.splitlines())]
            for one in chosen
        ]
        headings = ("chapter", "exhibit", "claims", "what it shows", "equation")
        print(Table(headings, rows, text_columns=range(5)).to_markdown())
    else:
        for chapter, members in groupby(chosen, key=lambda one: one.chapter):
            rows = [[one.name, ", ".join(one.claims), one.title] for one in members]
            table = Table(("", "", ""), rows, text_columns=(0, 1, 2), wrap_columns=(1, 2))
            show(Text(chapter, style="bold"), table, "")
        show(f"{len(chosen)} exhibits, in the order of a course. `attnlab exhibit NAME` runs one, --all all of them.")
    return 0


def _links(one: Exhibit[Any]) -> str:
    return ", ".join(f"[{claim}](claims.md#claim-{claim})" for claim in one.claims)


def _run(
    chosen: Sequence[Exhibit[Any]], given: Mapping[str, str], *, smoke: bool, whole: bool, as_json: bool
) -> list[Outcome]:
    outcomes = []
    for one in chosen:
        settings = one.smoke if smoke else given
        if whole and not as_json:
            outcomes.append(Printer().run(one, **settings))
            continue
        outcomes.append(one.run(listener=Watcher(), **settings))
        if not as_json:
            _brief(outcomes[-1])
    if as_json:
        show_json(outcomes[0].to_dict() if whole else _all_data(outcomes))
    elif not whole:
        checks = [check for outcome in outcomes for check in outcome.checks]
        seconds = sum(outcome.seconds for outcome in outcomes)
        held = sum(check.ok for check in checks)
        show(f"\n{held} of {len(checks)} checks of {len(outcomes)} exhibits hold; {seconds:.0f} s")
    return outcomes


def _brief(outcome: Outcome) -> None:
    """Print one line for an exhibit, and one for each check that fails."""
    held = sum(check.ok for check in outcome.checks)
    mark = Text("✓", style="green") if outcome.ok else Text("✗", style="bold red")
    words = f" {outcome.exhibit.name:<28} {held:>2} of {len(outcome.checks):>2} checks hold  {outcome.seconds:6.1f} s"
    show(mark + Text(words))
    for check in outcome.checks:
        if not check.ok:
            show(Text(f"  ✗ {check.claim}  {check.what}: {check.figure}", style="red"))


def _all_data(outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {
        "ok": all(outcome.ok for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 3),
        "checks": [
            {"exhibit": outcome.exhibit.name, **to_plain(check)} for outcome in outcomes for check in outcome.checks
        ],
        "exhibits": [
            {key: value for key, value in outcome.to_dict(blocks=False).items() if key != "checks"}
            for outcome in outcomes
        ],
    }
