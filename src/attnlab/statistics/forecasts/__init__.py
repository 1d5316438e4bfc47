"""Differences at larger models.

loss_law             the loss against parameters and tokens
ladders              losses at several sizes
families             how a difference may change with size
forecast             an average over the families
backtest             how good forecasts were
simulated_ladders    how good they are where the truth is known
"""
