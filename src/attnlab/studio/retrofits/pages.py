"""The pages of retrofits: the list with a form, and a single retrofit."""

from __future__ import annotations

from attnlab.errors import AttnlabError
from attnlab.studio.folders import opaque_id
from attnlab.studio.frame import Frame, page
from attnlab.studio.retrofits.form import RetrofitForm
from attnlab.studio.retrofits.one import RetrofitWatch
from attnlab.studio.retrofits.processes import FOLDERS, Retrofits
from attnlab.studio.studio import Studio


def register(studio: Studio) -> None:
    retrofits = Retrofits(studio)

    def refuse(name: str) -> AttnlabError | None:
        if any(opaque_id(path.name) == name for path in studio.runs.glob(FOLDERS)):
            return None
        return AttnlabError("there is no such retrofit here", hint="Retrofit lists those there are")

    @page(studio, "/retrofit", "Retrofit")
    async def form(frame: Frame, run: str = "") -> None:
        await RetrofitForm(frame, studio, retrofits).build(run)

    @page(studio, "/retrofit/{name}", "Retrofit", under="/retrofit", refuse=refuse)
    async def one(frame: Frame, name: str) -> None:
        await RetrofitWatch(frame, studio, retrofits, name).build()
