#include "src/calibrate/run_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "fmt/format.h"

namespace stepcast::calibrate {
namespace {

using calibration::kRunKinds;
using calibration::kRunSizes;
using calibration::LearnedRun;
using calibration::LearnedRuns;
using calibration::RunKind;
using calibration::RunSettings;
using calibration::RunSize;

double LogRatio(const MeasuredRun& run) { return std::log(run.measured / run.forecast); }

std::vector<Configuration> ConfigurationsOf(const std::vector<MeasuredRun>& runs) {
  std::map<RunSettings, Configuration> by_settings;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Configuration& configuration = by_settings[runs[i].settings];
    configuration.members.push_back(i);
  }
  std::vector<Configuration> configurations;
  for (auto& [settings, configuration] : by_settings) {
    double sum = 0;
    for (const std::size_t run : configuration.members) sum += LogRatio(runs[run]);
    const auto count = static_cast<int>(configuration.members.size());
    configuration.run = {.settings = settings, .log_ratio = sum / count, .repeats = count};
    configurations.push_back(std::move(configuration));
  }
  return configurations;
}

// ---- settings ----

// The runs that a setting selects, as a subset of all.
struct Group {
  std::string setting;
  std::vector<bool> in;  // by run
};

std::vector<Group> GroupsOf(const std::vector<MeasuredRun>& runs) {
  std::vector<Group> groups;
  const auto add = [&](std::string setting, const std::function<bool(const RunSettings&)>& is_in) {
    Group group{.setting = std::move(setting), .in = {}};
    for (const MeasuredRun& run : runs) group.in.push_back(is_in(run.settings));
    groups.push_back(std::move(group));
  };
  for (std::size_t i = 0; i < kRunKinds; ++i) {
    std::set<std::string> words;
    for (const MeasuredRun& run : runs) words.insert(run.settings.kinds[i]);
    if (words.size() < 2) continue;
    for (const std::string& word : words) {
      add(fmt::format("{}: {}", Name(static_cast<RunKind>(i)), word),
          [&](const RunSettings& settings) { return settings.kinds[i] == word; });
    }
  }
  for (std::size_t i = 0; i < kRunSizes; ++i) {
    std::set<std::int64_t> sizes;
    for (const MeasuredRun& run : runs) sizes.insert(run.settings.sizes[i]);
    for (const std::int64_t size : sizes) {
      if (size == *sizes.begin()) continue;
      const auto name = Name(static_cast<RunSize>(i));
      add(fmt::format("{}: {} or more", name, size),
          [&](const RunSettings& settings) { return settings.sizes[i] >= size; });
      add(fmt::format("{}: less than {}", name, size),
          [&](const RunSettings& settings) { return settings.sizes[i] < size; });
    }
  }
  return groups;
}

struct Moments {
  std::size_t count = 0;
  double mean = 0, variance = 0;
};

Moments MomentsOf(const std::vector<double>& residuals, const std::vector<bool>& in, bool wanted) {
  Moments moments;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    if (in[i] != wanted) continue;
    ++moments.count;
    moments.mean += residuals[i];
  }
  if (moments.count == 0) return moments;
  moments.mean /= static_cast<double>(moments.count);
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    if (in[i] == wanted) moments.variance += std::pow(residuals[i] - moments.mean, 2);
  }
  if (moments.count > 1) moments.variance /= static_cast<double>(moments.count - 1);
  return moments;
}

// Greedy selection by Welch's t: take the setting with the largest t, subtract its mean difference,
// and repeat. Correlated settings are therefore not named twice.
std::vector<SettingResidual> SettingsOf(const std::vector<MeasuredRun>& runs) {
  constexpr std::size_t kLeastRuns = 3, kMostNamed = 5;
  constexpr double kLeastDifference = 0.03;  // of the logarithm: 3 %
  // Many settings are tested, and chance alone brings some of them to a t of 3.
  constexpr double kLeastT = 4;
  constexpr double kRepeats = 0.005;  // nothing is known better
  std::vector<double> residuals;
  residuals.reserve(runs.size());
  for (const MeasuredRun& run : runs) residuals.push_back(LogRatio(run));
  const std::vector<double> measured = residuals;
  const std::vector<Group> groups = GroupsOf(runs);
  std::vector<SettingResidual> named;
  while (named.size() < kMostNamed) {
    const Group* plainest = nullptr;
    double most = 0, mean = 0, difference = 0;
    for (const Group& group : groups) {
      const Moments with = MomentsOf(residuals, group.in, true);
      const Moments without = MomentsOf(residuals, group.in, false);
      if (with.count < kLeastRuns || without.count < kLeastRuns) continue;
      const double apart = with.mean - without.mean;
      const double error = std::sqrt(
          std::max(with.variance, kRepeats * kRepeats) / static_cast<double>(with.count) +
          std::max(without.variance, kRepeats * kRepeats) / static_cast<double>(without.count));
      const double t = std::abs(apart) / error;
      if (t < kLeastT || std::abs(apart) < kLeastDifference) continue;
      // Complementary halves have the same t; the one with the larger mean error is named.
      constexpr double kAsPlain = 1e-9;
      if (t < most - kAsPlain || (t <= most + kAsPlain && std::abs(with.mean) <= std::abs(mean))) {
        continue;
      }
      plainest = &group;
      most = t;
      mean = with.mean;
      difference = apart;
    }
    if (plainest == nullptr) break;
    const Moments with = MomentsOf(measured, plainest->in, true);
    named.push_back({.setting = plainest->setting,
                     .runs = with.count,
                     .with = with.mean,
                     .without = MomentsOf(measured, plainest->in, false).mean});
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      if (plainest->in[i]) residuals[i] -= difference;
    }
  }
  return named;
}

// Compares errors with the corrections of other configurations and without corrections.
bool IsUseful(const std::vector<Configuration>& configurations,
              const std::vector<MeasuredRun>& runs) {
  const auto error = [](const MeasuredRun& run, double log_ratio) {
    return std::abs(run.forecast * std::exp(log_ratio) / run.measured - 1);
  };
  std::vector<double> reductions;  // by configuration, of its mean absolute error
  for (const Configuration& configuration : configurations) {
    const double log_ratio = configuration.left_out ? configuration.left_out->log_ratio : 0;
    double sum = 0;
    for (const std::size_t run : configuration.members) {
      sum += error(runs[run], 0) - error(runs[run], log_ratio);
    }
    reductions.push_back(sum / static_cast<double>(configuration.members.size()));
  }
  const Moments all = MomentsOf(reductions, std::vector<bool>(reductions.size(), true), true);
  return all.mean > std::sqrt(all.variance / static_cast<double>(all.count));
}

}  // namespace

RunFit FitRuns(const std::vector<MeasuredRun>& runs) {
  RunFit fit;
  fit.configurations = ConfigurationsOf(runs);
  std::vector<LearnedRun> learned;
  std::vector<std::size_t> places;
  const bool only = fit.configurations.size() == 1;
  for (std::size_t i = 0; i < fit.configurations.size(); ++i) {
    const RunSettings& own = fit.configurations[i].run.settings;
    const bool alike = std::any_of(
        fit.configurations.begin(), fit.configurations.end(), [&](const Configuration& other) {
          return &other != &fit.configurations[i] &&
                 LearnedRuns::Likeness(own, other.run.settings) >= calibration::kLeastLikeness;
        });
    if (!alike && !only) continue;
    learned.push_back(fit.configurations[i].run);
    places.push_back(i);
  }
  if (!learned.empty()) {
    fit.learned.emplace(std::move(learned));
    fit.useful = only;
    if (only) return fit;
    const std::vector<LearnedRuns::Estimate> estimates = fit.learned->LeavingOneOut();
    for (std::size_t i = 0; i < places.size(); ++i) {
      fit.configurations[places[i]].left_out = estimates[i];
    }
    fit.useful = IsUseful(fit.configurations, runs);
  }
  fit.settings = SettingsOf(runs);
  return fit;
}

}  // namespace stepcast::calibrate
