"""Numbers in, numbers out: intervals, paired tests, power, confidence, and forecasts over model size."""

from attnlab.statistics.backtest import Backtest, BacktestArm, backtest
from attnlab.statistics.bias_variance import ErrorSplit, polynomial_smoother, split_log_loss, split_squared_error
from attnlab.statistics.estimates import Estimate, estimate_mean, estimate_share, estimate_variance
from attnlab.statistics.forecast import Forecast, LadderFit, fit_ladder, forecast
from attnlab.statistics.goodness import kolmogorov_distance, kolmogorov_limit
from attnlab.statistics.growth import Growth, exponential_growth, power_growth
from attnlab.statistics.ladders import Ladder, LadderPoint
from attnlab.statistics.logit_normal import LogitNormal
from attnlab.statistics.loss_law import LossLaw, fit_loss_law
from attnlab.statistics.paired import (
    Interval,
    Noise,
    bca_interval,
    degrees_of_freedom,
    equivalence,
    holm,
    is_noisier,
    mean_interval,
    paired_t,
    sign_flip,
)
from attnlab.statistics.power import (
    count_needed,
    detectable_difference,
    equivalence_count_needed,
    equivalence_power,
    exceeds,
    pooled_sd,
    smallest_sign_flip_p,
    upper_sd,
)
from attnlab.statistics.proportions import binomial_tail, clopper_pearson
from attnlab.statistics.reliability import Reliability, ReliabilityBin, reliability
from attnlab.statistics.risk_control import RiskControl, Tried, control_risk, fewest_needed, spread_thresholds
from attnlab.statistics.selective import RiskCoverage, area_difference, risk_coverage
from attnlab.statistics.separation import auroc, auroc_difference
from attnlab.statistics.simulated_ladders import ForecastCheck, SimulatedForecasts, simulate_forecasts, simulate_ladder
from attnlab.statistics.trend import Trend, trend

__all__ = [
    "Backtest",
    "BacktestArm",
    "ErrorSplit",
    "Estimate",
    "Forecast",
    "ForecastCheck",
    "Growth",
    "Interval",
    "Ladder",
    "LadderFit",
    "LadderPoint",
    "LogitNormal",
    "LossLaw",
    "Noise",
    "Reliability",
    "ReliabilityBin",
    "RiskControl",
    "RiskCoverage",
    "SimulatedForecasts",
    "Trend",
    "Tried",
    "area_difference",
    "auroc",
    "auroc_difference",
    "backtest",
    "bca_interval",
    "binomial_tail",
    "clopper_pearson",
    "control_risk",
    "count_needed",
    "degrees_of_freedom",
    "detectable_difference",
    "equivalence",
    "equivalence_count_needed",
    "equivalence_power",
    "estimate_mean",
    "estimate_share",
    "estimate_variance",
    "exceeds",
    "exponential_growth",
    "fewest_needed",
    "fit_ladder",
    "fit_loss_law",
    "forecast",
    "holm",
    "is_noisier",
    "kolmogorov_distance",
    "kolmogorov_limit",
    "mean_interval",
    "paired_t",
    "polynomial_smoother",
    "pooled_sd",
    "power_growth",
    "reliability",
    "risk_coverage",
    "sign_flip",
    "simulate_forecasts",
    "simulate_ladder",
    "smallest_sign_flip_p",
    "split_log_loss",
    "split_squared_error",
    "spread_thresholds",
    "trend",
    "upper_sd",
]
