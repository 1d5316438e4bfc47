"""The command line.

app         the commands, `main`, and exit codes
examples    an example of every command, and what `attnlab` alone prints
errors      errors as they are printed, with parameters as options
terminal    streams, width and warnings
recorded    options beside a recorded run or comparison
bundling    bundles that commands write, and how a result is cited
options     options that commands share
figures     `--figures`: figures and tables as files
printing    tables and data on stdout, everything else on stderr
measuring   options, progress and output of measurements
commands    one file per command
retrofit    `attnlab retrofit`
verify      `attnlab verify`
completion  `attnlab completion`
knowledge   `attnlab knowledge …` and `attnlab ask`
"""

from attnlab.cli.app import main

__all__ = ["main"]
