#include "src/calibration/learned_runs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"

namespace stepcast::calibration {
namespace {

using Triangle = std::vector<std::vector<double>>;

// Solves root x = right in place.
void SolveLower(const Triangle& root, std::vector<double>& right) {
  for (std::size_t i = 0; i < root.size(); ++i) {
    double rest = right[i];
    for (std::size_t k = 0; k < i; ++k) rest -= root[i][k] * right[k];
    right[i] = rest / root[i][i];
  }
}

// Solves root^T x = right in place.
void SolveUpper(const Triangle& root, std::vector<double>& right) {
  for (std::size_t i = root.size(); i-- > 0;) {
    right[i] /= root[i][i];
    for (std::size_t k = 0; k < i; ++k) right[k] -= root[i][k] * right[i];
  }
}

// Cholesky factorization of a symmetric positive definite matrix, given by its lower triangle.
void Factorise(Triangle& matrix) {
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double rest = matrix[i][j];
      for (std::size_t k = 0; k < j; ++k) rest -= matrix[i][k] * matrix[j][k];
      if (i == j) {
        STEPCAST_CHECK(rest > 0, "the covariance matrix must be positive definite");
        matrix[i][i] = std::sqrt(rest);
      } else {
        matrix[i][j] = rest / matrix[j][j];
      }
    }
  }
}

double Distance(const RunSettings& a, const RunSettings& b) {
  constexpr double kDoublings = 2;
  double sum = 0;
  for (std::size_t i = 0; i < kRunSizes; ++i) {
    if (a.sizes[i] == b.sizes[i] || a.sizes[i] == 0 || b.sizes[i] == 0) continue;
    const double lengths =
        std::log2(static_cast<double>(a.sizes[i]) / static_cast<double>(b.sizes[i])) / kDoublings;
    sum += lengths * lengths;
  }
  for (std::size_t i = 0; i < kRunKinds; ++i) {
    if (a.kinds[i] != b.kinds[i] && !a.kinds[i].empty() && !b.kinds[i].empty()) sum += 1;
  }
  return sum;
}

constexpr double kVariance = kNearDeviation * kNearDeviation + kWideDeviation * kWideDeviation;
constexpr double kNoise = kRepeatDeviation * kRepeatDeviation;

double Covariance(const RunSettings& a, const RunSettings& b) {
  const double distance = Distance(a, b);
  return kNearDeviation * kNearDeviation * std::exp(-distance / 2) +
         kWideDeviation * kWideDeviation * std::exp(-distance / 32);
}

LearnedRuns::Estimate EstimateOf(double log_ratio, double variance) {
  return {.log_ratio = log_ratio,
          .deviation = std::sqrt(std::max(0.0, variance) + kNoise),
          .known = std::clamp(1 - variance / kVariance, 0.0, 1.0)};
}

}  // namespace

double LearnedRuns::Likeness(const RunSettings& a, const RunSettings& b) {
  return Covariance(a, b) / kVariance;
}

LearnedRuns::LearnedRuns(std::vector<LearnedRun> runs) : runs_(std::move(runs)) {
  STEPCAST_CHECK(!runs_.empty() && runs_.size() <= kMostRuns,
                 "the number of runs must equal the "
                 "number of rows");
  root_.resize(runs_.size());
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      root_[i].push_back(Covariance(runs_[i].settings, runs_[j].settings));
    }
    root_[i].push_back(kVariance + kNoise / runs_[i].repeats);
  }
  Factorise(root_);
  for (const LearnedRun& run : runs_) weights_.push_back(run.log_ratio);
  SolveLower(root_, weights_);
  SolveUpper(root_, weights_);
}

LearnedRuns::Estimate LearnedRuns::At(const RunSettings& settings) const {
  std::vector<double> covariances;
  covariances.reserve(runs_.size());
  double mean = 0, most = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    covariances.push_back(Covariance(settings, runs_[i].settings));
    mean += weights_[i] * covariances[i];
    most = std::max(most, covariances[i]);
  }
  if (most < kLeastLikeness * kVariance) return EstimateOf(0, kVariance);
  SolveLower(root_, covariances);
  double variance = kVariance;
  for (const double part : covariances) variance -= part * part;
  return EstimateOf(mean, variance);
}

// With the inverse K of the covariance, the mean of run i without itself is y_i - (K y)_i / K_ii,
// and its variance 1 / K_ii (Rasmussen and Williams 2006, section 5.4.2).
std::vector<LearnedRuns::Estimate> LearnedRuns::LeavingOneOut() const {
  std::vector<Estimate> estimates;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const bool far = std::none_of(runs_.begin(), runs_.end(), [&](const LearnedRun& other) {
      return &other != &runs_[i] && Likeness(runs_[i].settings, other.settings) >= kLeastLikeness;
    });
    if (far) {
      estimates.push_back(EstimateOf(0, kVariance));
      continue;
    }
    std::vector<double> unit(runs_.size(), 0.0);
    unit[i] = 1;
    SolveLower(root_, unit);
    double inverse = 0;
    for (const double part : unit) inverse += part * part;
    estimates.push_back(EstimateOf(runs_[i].log_ratio - weights_[i] / inverse,
                                   1 / inverse - kNoise / runs_[i].repeats));
  }
  return estimates;
}

}  // namespace stepcast::calibration
