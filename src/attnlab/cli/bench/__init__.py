"""`attnlab bench …`.

commands    the list of measurements, and attention alone
races       whole models against peers
products    waiting times of users, and the reliability of results
facts       the fact store
output      options that all share, progress, and how findings are printed
"""
