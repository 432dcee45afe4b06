// SPDX-License-Identifier: Apache-2.0
// The regression of a calibration, and how far measured steps let the prices go.
#include "kerf/Compiler/Calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kerf {

namespace {

// Degrees of freedom of the t distribution that measurements have around their predictions.
constexpr double kDegreesOfFreedom = 4;
constexpr double kDeviationOfMedian = 1.4826; // standard deviation of a normal distribution by its median deviation
constexpr int kWeightedFits = 3;              // fits of one selection of steps after the first one, with weights
constexpr int64_t kManySteps = 3;             // with fewer steps nothing tells which of them is far from all others
// Scales of the spreads before the measurements that leave-one-out compares. Above 1: prices are further off than those
// of the published runs usually are.
constexpr double kScales[] = {0, 0.5, 1, 2, 4};
constexpr double kTolerance = 1e-6; // by which a factor may lie below its limit, in spreads
constexpr double kCertain = 1e12;   // precision with which a factor is kept at its limit
// The share of the errors by which steps other than the one that gains the most have to become better. Chosen together
// with the table of docs/cost-model.md, "Calibration".
constexpr double kGainOfOthers = 0.2;

/// Returns the inverse of a symmetric, positive definite matrix (Gauss and Jordan).
std::array<ByPrice, kPrices> inverseOf(std::array<ByPrice, kPrices> matrix) {
  std::array<ByPrice, kPrices> inverse = {};
  for (size_t i = 0; i < kPrices; ++i)
    inverse[i][i] = 1;
  for (size_t i = 0; i < kPrices; ++i) {
    double pivot = matrix[i][i];
    for (size_t j = 0; j < kPrices; ++j) {
      matrix[i][j] /= pivot;
      inverse[i][j] /= pivot;
    }
    for (size_t r = 0; r < kPrices; ++r) {
      if (r == i)
        continue;
      double times = matrix[r][i];
      for (size_t j = 0; j < kPrices; ++j) {
        matrix[r][j] -= times * matrix[i][j];
        inverse[r][j] -= times * inverse[i][j];
      }
    }
  }
  return inverse;
}

/// Returns the logarithm of measured by predicted seconds if the factors were `at`.
double residualAt(const Residual &one, const ByPrice &at) {
  return one.logRatio - std::inner_product(at.begin(), at.end(), one.effects.begin(), 0.0);
}

/// Returns the factors that measurements ask for, if seconds were linear in the prices.
ByPrice factorsOf(const std::vector<Residual> &measurements, double scale, const ByPrice &least) {
  ByPrice at = {};
  std::vector<Residual> weighted = measurements;
  for (int fit = 0; fit <= kWeightedFits; ++fit) {
    at = posteriorOf(weighted, {}, scale, least).mean;
    std::vector<Residual> left = measurements;
    for (Residual &one : left)
      one.logRatio = residualAt(one, at);
    double spread = spreadOfSteps(left);
    reweight(left, spread);
    for (size_t i = 0; i < left.size(); ++i)
      weighted[i].weight = left[i].weight;
  }
  return at;
}

/// Returns the error of each step that is predicted from all other measurements. With the scale 0 only measurements of
/// kernels and collectives count.
std::vector<double> errorsOfOthers(const std::vector<Residual> &residuals, double scale, const ByPrice &least) {
  std::vector<double> errors;
  for (size_t out = 0; out < residuals.size(); ++out) {
    if (!residuals[out].isStep)
      continue;
    std::vector<Residual> others;
    for (size_t i = 0; i < residuals.size(); ++i)
      if (i != out && (scale > 0 || !residuals[i].isStep))
        others.push_back(residuals[i]);
    errors.push_back(std::abs(residualAt(residuals[out], factorsOf(others, scale > 0 ? scale : 1, least))));
  }
  return errors;
}

int64_t stepsOf(const std::vector<Residual> &residuals) {
  return std::ranges::count_if(residuals, [](const Residual &one) { return one.isStep; });
}

/// Returns the standard deviation of a normal distribution whose sizes have the median of `sizes`, at least that of a
/// plan; that of a plan if there are few sizes.
double spreadOf(std::vector<double> sizes) {
  if (static_cast<int64_t>(sizes.size()) < kManySteps)
    return kSpreadOfPlan;
  std::sort(sizes.begin(), sizes.end());
  double median = (sizes[(sizes.size() - 1) / 2] + sizes[sizes.size() / 2]) / 2;
  return std::max(kSpreadOfPlan, kDeviationOfMedian * median);
}

double sumOf(const std::vector<double> &values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Returns whether `larger` reduces the errors of more steps than one.
bool helpsSeveral(const std::vector<double> &smaller, const std::vector<double> &larger) {
  double gain = sumOf(smaller) - sumOf(larger), most = 0;
  for (size_t i = 0; i < smaller.size(); ++i)
    most = std::max(most, smaller[i] - larger[i]);
  return gain - most > kGainOfOthers * sumOf(smaller);
}

} // namespace

ByPrice leastFactors(const Cluster &cluster, const ByPrice &spreads) {
  ByPrice least;
  least.fill(-std::numeric_limits<double>::infinity());
  auto limit = [&](WorkKind kind, double share) {
    auto k = static_cast<size_t>(kind);
    if (share > 0)
      least[k] = std::max(least[k], std::log(std::min(share, 1.0)) / spreads[k]);
  };
  for (const Cluster &group : cluster.mixed() ? cluster.groups : std::vector<Cluster>{cluster}) {
    const DeviceCurves &curves = group.device.curves;
    limit(WorkKind::Products, std::max(curves.productEfficiency, curves.productMemory));
    limit(WorkKind::Attention, std::max(curves.attentionEfficiency, curves.vendorAttention));
    limit(WorkKind::Memory,
          std::max({curves.memoryEfficiency, curves.reductionMemory, curves.gatherMemory, curves.movementMemory}));
  }
  return least;
}

Posterior posteriorOf(const std::vector<Residual> &measurements, const ByPrice &at, double scale,
                      const ByPrice &least) {
  std::array<ByPrice, kPrices> precision = {};
  ByPrice right = {};
  for (size_t k = 0; k < kPrices; ++k)
    precision[k][k] = 1 / (scale * scale); // the distribution before the measurements, in units of the usual spreads
  for (const Residual &one : measurements) {
    const double weight = one.weight / (kSpreadOfPlan * kSpreadOfPlan);
    double target = one.logRatio;
    for (size_t k = 0; k < kPrices; ++k)
      target += one.effects[k] * at[k];
    for (size_t k = 0; k < kPrices; ++k) {
      right[k] += weight * one.effects[k] * target;
      for (size_t j = 0; j < kPrices; ++j)
        precision[k][j] += weight * one.effects[k] * one.effects[j];
    }
  }
  while (true) {
    Posterior posterior;
    posterior.covariance = inverseOf(precision);
    for (size_t k = 0; k < kPrices; ++k)
      for (size_t j = 0; j < kPrices; ++j)
        posterior.mean[k] += posterior.covariance[k][j] * right[j];
    size_t furthest = 0;
    for (size_t k = 1; k < kPrices; ++k)
      if (posterior.mean[k] - least[k] < posterior.mean[furthest] - least[furthest])
        furthest = k;
    if (posterior.mean[furthest] - least[furthest] >= -kTolerance)
      return posterior;
    // As if the factor had been measured to be at its limit.
    precision[furthest][furthest] += kCertain;
    right[furthest] += kCertain * least[furthest];
  }
}

double spreadOfSteps(const std::vector<Residual> &residuals) {
  std::vector<double> sizes;
  for (const Residual &one : residuals)
    if (one.isStep)
      sizes.push_back(std::abs(one.logRatio));
  return spreadOf(std::move(sizes));
}

double spreadOfOthers(const std::vector<Residual> &residuals, double scale, const ByPrice &least) {
  return spreadOf(errorsOfOthers(residuals, scale, least));
}

void reweight(std::vector<Residual> &residuals, double spread) {
  if (stepsOf(residuals) < kManySteps)
    return;
  for (Residual &one : residuals) {
    double distance = one.logRatio / spread, scale = kSpreadOfPlan / spread;
    one.weight *= scale * scale * (kDegreesOfFreedom + 1) / (kDegreesOfFreedom + distance * distance);
  }
}

LeaveOneOut leaveOneOut(const std::vector<Residual> &residuals, const ByPrice &least) {
  LeaveOneOut result;
  result.steps = stepsOf(residuals);
  if (result.steps < 2)
    return result;
  std::vector<std::vector<double>> errors;
  for (double scale : kScales)
    errors.push_back(errorsOfOthers(residuals, scale, least));
  size_t best = 0;
  for (size_t i = 1; i < errors.size(); ++i)
    if (sumOf(errors[i]) < sumOf(errors[best]))
      best = i;
  size_t chosen = 0; // the smallest scale that the best one does not clearly beat
  while (chosen < best && helpsSeveral(errors[chosen], errors[best]))
    ++chosen;
  auto number = static_cast<double>(result.steps);
  result.scale = kScales[chosen];
  result.before = sumOf(errors[0]) / number;
  result.after = sumOf(errors[chosen]) / number;
  return result;
}

} // namespace kerf
