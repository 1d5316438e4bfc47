"""Use attnlab in a web page."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

from attnlab.cli.options import RUNS, Flag, JsonFlag, VariantsFile
from attnlab.cli.printing import say, show_json
from attnlab.errors import AttnlabError


def studio(
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    runs: Path = RUNS,
    variants_from: VariantsFile = None,
    no_browser: Flag = False,
    expose: Flag = False,
    as_json: JsonFlag = False,
) -> None:
    """Open attnlab in a web browser: playground, compare, heads, cost, exhibits, ask.

    Anyone with the printed address, which holds a key, can use the studio. Comparisons that were started there continue
    when the studio ends, and a studio that is started again finds them.

    Parameters
    ----------
    port
        Where to listen; by default the first free port from 8421 on.
    host
        The address to listen at. One that other machines can reach needs --expose.
    runs
        The folder that holds comparisons and runs.
    no_browser
        Only print the address.
    expose
        Let other machines in. Anyone with the address can train, stop and read runs here, and nothing is encrypted.
    as_json
        Print the address as JSON.
    """
    try:
        import nicegui  # noqa: F401
    except ImportError as error:
        raise AttnlabError(f"nicegui cannot be imported: {error}", hint="pip install 'attnlab[studio]'") from error
    from attnlab.studio.server import run
    from attnlab.studio.studio import Settings, is_loopback

    if variants_from is not None:
        from attnlab.attention import load_variants  # imports PyTorch, which the studio leaves to its workers

        load_variants(variants_from)  # reports errors in the file here
        variants_from = variants_from.resolve()
    settings = Settings(runs=runs.resolve(), host=host, port=port, exposed=expose, variants_from=variants_from)

    def announce(address: str) -> None:
        if as_json:
            show_json({"url": address, "runs": str(settings.runs)})
        else:
            print(address)
        sys.stdout.flush()
        if not is_loopback(host):
            say("note: other machines can reach this studio, and anyone with the address can use it, unencrypted")
        say(f"The studio shows the runs in {runs}. Ctrl-C ends it; comparisons continue.")
        if not no_browser:
            webbrowser.open(address)

    run(settings, announce)
