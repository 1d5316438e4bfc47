"""Runs, wherever they run.

jobs           what is to be trained, and what became of it
launcher       the launchers by name
worker         what does one job
board          what is left to do, and who is told
local          processes of this machine
ray_cluster    tasks of Ray
slurm          jobs of Slurm
extras         libraries that only some of these need
usage          the memory that a run held
watching       how far all runs are, read from their folders
following      how far a comparison is, read from its folder
progress       how that is told in a terminal
"""
