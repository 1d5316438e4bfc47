"""Statistics: intervals, paired tests, power, calibration, and forecasts over model size.

checking         validation of arguments
paired           tests and intervals of paired differences
power            detectable differences and numbers of pairs needed
trends           linear fits: whether a difference changes with size, growth rates
samples          means, variances and shares with standard errors, and goodness of fit
bias_variance    the bias–variance decomposition of an error
confidence       calibration, and how well a score separates two groups
selective        selective prediction with a risk guarantee
forecasts        forecasts of differences at larger model sizes
"""

from attnlab.statistics.bias_variance import ErrorSplit, polynomial_smoother, split_log_loss, split_squared_error
from attnlab.statistics.confidence import Reliability, ReliabilityBin, auroc, auroc_difference, reliability
from attnlab.statistics.forecasts.accuracy import (
    Backtest,
    BacktestArm,
    ForecastCheck,
    SimulatedForecasts,
    backtest,
    simulate_forecasts,
    simulate_ladder,
)
from attnlab.statistics.forecasts.forecast import Forecast, LadderFit, fit_ladder, forecast
from attnlab.statistics.forecasts.ladders import Ladder, LadderPoint
from attnlab.statistics.forecasts.loss_law import LossLaw, fit_loss_law
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
from attnlab.statistics.samples import (
    Estimate,
    LogitNormal,
    binomial_tail,
    clopper_pearson,
    estimate_mean,
    estimate_share,
    estimate_variance,
    kolmogorov_distance,
    kolmogorov_limit,
)
from attnlab.statistics.selective import (
    RiskControl,
    RiskCoverage,
    Tried,
    area_difference,
    control_risk,
    fewest_needed,
    risk_coverage,
    spread_thresholds,
)
from attnlab.statistics.trends import Growth, Trend, exponential_growth, power_growth, trend

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
