"""Retrofits in the studio.

processes    retrofits that the studio started, each in a process of its own
form         a form that states memory and time, and the list of retrofits
one          one retrofit while it is carried out, and what was found
pages        both as pages of the studio
"""
