"""What all exhibits share.

parameters    what a user can set
blocks        what is shown, described once
stage         what an exhibit calls to show and to check
exhibit       an exhibit, and the outcome of a run
gallery       all exhibits, by name
toys          set-up that several exhibits share
pages         outcomes as a page
terminal      an exhibit in a terminal
"""
