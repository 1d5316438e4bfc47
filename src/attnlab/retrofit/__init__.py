"""Give a trained model another attention.

conversion   weights for another attention, without training
"""
