"""Numbers in, numbers out: intervals, paired tests, power, confidence, and forecasts over model size.

differences      paired tests, power, trends
forecasts        differences at larger models
confidence       what confidence is worth
estimates        means and shares with their errors
bias_variance    the error of a learner, split
goodness         whether samples come from a distribution
growth           how fast something grows
logit_normal     σ(z) of a normal z
checking         what all of these refuse
"""

from attnlab.statistics.bias_variance import ErrorSplit, polynomial_smoother, split_log_loss, split_squared_error
from attnlab.statistics.confidence.proportions import binomial_tail, clopper_pearson
from attnlab.statistics.confidence.reliability import Reliability, ReliabilityBin, reliability
from attnlab.statistics.confidence.risk_control import (
    RiskControl,
    Tried,
    control_risk,
    fewest_needed,
    spread_thresholds,
)
from attnlab.statistics.confidence.selective import RiskCoverage, area_difference, risk_coverage
from attnlab.statistics.confidence.separation import auroc, auroc_difference
from attnlab.statistics.differences.paired import (
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
from attnlab.statistics.differences.power import (
    count_needed,
    detectable_difference,
    equivalence_count_needed,
    equivalence_power,
    exceeds,
    pooled_sd,
    smallest_sign_flip_p,
    upper_sd,
)
from attnlab.statistics.differences.trend import Trend, trend
from attnlab.statistics.estimates import Estimate, estimate_mean, estimate_share, estimate_variance
from attnlab.statistics.forecasts.backtest import Backtest, BacktestArm, backtest
from attnlab.statistics.forecasts.forecast import Forecast, LadderFit, fit_ladder, forecast
from attnlab.statistics.forecasts.ladders import Ladder, LadderPoint
from attnlab.statistics.forecasts.loss_law import LossLaw, fit_loss_law
from attnlab.statistics.forecasts.simulated_ladders import (
    ForecastCheck,
    SimulatedForecasts,
    simulate_forecasts,
    simulate_ladder,
)
from attnlab.statistics.goodness import kolmogorov_distance, kolmogorov_limit
from attnlab.statistics.growth import Growth, exponential_growth, power_growth
from attnlab.statistics.logit_normal import LogitNormal

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
