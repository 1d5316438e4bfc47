"""The machine, and child processes on it.

machine       processor, cores, threads, memory
memory        how the allocator reuses freed memory
child         a child process that answers questions, and its side of the pipe
async_child   the same for an event loop
template      a process that is forked, so that children start fast and share memory
pool          a worker pool of such processes
"""
