"""Durable, atomic files.

disk        file-system operations: atomic files, folders, temporaries
files       a file at a path that a user named
records     JSON records
plans       plan.json, the plan of a comparison
tensors     safetensors files
locks       locks on folders
"""
