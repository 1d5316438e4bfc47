"""The response times of the studio, its memory, and its effect on concurrent training.

start     seconds from `attnlab studio` to the first page with the numbers of the worked example, in Chromium
edit      milliseconds from a changed cell to new numbers on screen, the median of many, in Chromium
crowd     the 95th percentile of the same for two browsers and thirty more visitors at once
memory    the peak of the studio and its workers meanwhile
hover     milliseconds from pointing at a head to the frame that shows it, and the head shown after a fast movement
beside    steps per second of a comparison with its page open ÷ those with its page closed
held      the memory after scripted use of every page, and its growth in the last half; only on request

Files:

figures    all of them in one run, and their limits
serving    a studio in a separate process, and its pages in Chromium
crowd      many visitors at once, in the playground
hover      pointing at heads
beside     a comparison that trains, with its page open and closed
usage      long use of every page
"""

from attnlab.bench.products.studio.figures import BARS, StudioBench, StudioPlan, bench_studio

__all__ = ["BARS", "StudioBench", "StudioPlan", "bench_studio"]
