"""Retrofits in the studio.

processes    retrofits that the studio started, each in a separate process
form         a form that shows memory and time, and the list of retrofits
one          one retrofit while it runs, and its results
pages        both as pages of the studio
"""
