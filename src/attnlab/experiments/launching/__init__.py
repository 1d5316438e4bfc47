"""Runs, wherever they run.

run_states      how far runs are, read from their folders
jobs            what is to be trained, and what became of it
worker          what does one job, and the memory that it took
status_table    what is left to do of a grid, and what became of the rest
ray_cluster     tasks of Ray
slurm           jobs of Slurm
extras          libraries that only some of these need
launcher        processes of this machine, and the launchers by name
progress        how the progress is told in a terminal
"""
