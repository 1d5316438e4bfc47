"""The machine, and other processes on it.

machine     processor, cores, threads, memory
child       another Python process that answers questions
"""
