"""Runs, wherever they run.

jobs            what is to be trained, how far it is, and what became of it
worker          what does one job, and the memory that it took
status_table    what every launcher needs: what is left to do of a grid, and what became of the rest
ray_cluster     tasks of Ray
slurm           jobs of Slurm
launcher        processes of this machine, and the launchers by name
progress        how the progress is told in a terminal
"""
