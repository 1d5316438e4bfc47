"""Files that last, whatever happens to the process that writes them.

disk        effects on a file system: whole files, folders, temporaries
files       a file at a path that a user named
records     JSON records
plans       the file of a comparison's plan
tensors     safetensors files
locks       who holds a folder
"""
