"""Forecasts of differences at larger model sizes.

loss_law    the scaling law of the loss in parameters and tokens
ladders     losses at several sizes
families    how a difference may change with size
forecast    an average over the families
accuracy    the accuracy of forecasts, on hidden rungs and on simulated ladders
"""
