"""The campaign: thousands of commands with bad values, interruptions, failing disks and hostile files.

system_calls   the effects of a process on files, counted and made to fail by the kernel
children       a command in a forked process, with whatever troubles it
workers        worker processes that are forked instead of started
scenes         folders that commands work in
digests        what a folder holds: what must not be lost, and what must come out
commands       commands that write, and what they write
values         good and bad values for every option of every command
mutations      damaged and hostile files of every format
cases          cases of each kind, made from a seed
judging        what is wrong with an outcome
millions       a large fact store, whose writers are killed
tally          counts of what happened, and their file

    python -m support.campaign --help
"""
