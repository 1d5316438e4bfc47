"""The machine, and other processes on it.

machine       processor, cores, threads, memory
memory        what becomes of memory that was freed
child         a child process that answers questions, and its side of the pipe
async_child   the same for an event loop
template      a process that is copied, so that children start at once and share memory
pool          a pool of such processes
"""
