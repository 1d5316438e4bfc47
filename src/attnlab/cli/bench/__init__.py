"""`attnlab bench …`.

commands    attention alone, waiting times of users, and the reliability of results
races       whole models against peers
facts       the fact store
output      options that all share, progress, and how findings are printed
"""
