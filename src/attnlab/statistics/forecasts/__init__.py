"""Differences at larger models.

loss_law    the loss against parameters and tokens
ladders     losses at several sizes
families    how a difference may change with size
forecast    an average over the families
accuracy    how good forecasts are, of hidden rungs and of simulated ladders
"""
