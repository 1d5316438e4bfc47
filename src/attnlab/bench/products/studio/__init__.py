"""The response times of the studio, its memory, and what it takes from training.

start     seconds from `attnlab studio` to the first page with its numbers, those of the worked example, in Chromium
edit      milliseconds from a changed cell to new numbers on screen, the median of many, in Chromium
crowd     the 95th percentile of the same for two browsers and thirty more visitors at once
memory    the most that the studio and its workers hold at once meanwhile
hover     milliseconds from pointing at a head to the frame that shows it, and what a fast movement ends with
beside    steps per second of a comparison while its page is open, over those while it is closed
held      the memory after a time of scripted use of every page, and its growth in the last half; only on request

Files:

figures    all of them in one run, and the limits that they are held to
serving    a studio in a process of its own, and its pages in Chromium
crowd      many visitors at once, in the playground
hover      pointing at heads
beside     a comparison that trains, watched and not watched
usage      long use of every page
"""

from attnlab.bench.products.studio.figures import BARS, StudioBench, StudioPlan, bench_studio

__all__ = ["BARS", "StudioBench", "StudioPlan", "bench_studio"]
