// Learns from half of a published source's configurations, and forecasts the others. Half: the
// first, third, ... of the file. Corrections are used if they are useful (RunFit::useful), as
// `calibrate runs` does. Simulates all published rows, which takes minutes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/diagnostic.h"
#include "src/calibrate/run_fit.h"
#include "src/scenario/data_root.h"
#include "src/validate/measured_runs.h"

namespace stepcast {
namespace {

using calibrate::MeasuredRun;
using calibrate::RunFit;

constexpr std::size_t kLeastRows = 6;
constexpr double kNoWorse = 0.01;

double ErrorOf(const MeasuredRun& run, double log_ratio) {
  return std::abs(run.forecast * std::exp(log_ratio) / run.measured - 1);
}

struct Source {
  std::string name;
  std::size_t rows = 0;              // of the half that is forecast
  double forecast = 0, learned = 0;  // mean absolute errors on it
};

Source HalfOf(const std::string& name, const std::vector<MeasuredRun>& runs) {
  std::vector<calibration::RunSettings> configurations;
  std::vector<MeasuredRun> known, others;
  for (const MeasuredRun& run : runs) {
    const auto found = std::find(configurations.begin(), configurations.end(), run.settings);
    const auto place = found - configurations.begin();
    if (found == configurations.end()) configurations.push_back(run.settings);
    (place % 2 == 0 ? known : others).push_back(run);
  }
  const RunFit fit = calibrate::FitRuns(known);
  Source source{.name = name, .rows = others.size()};
  for (const MeasuredRun& run : others) {
    const double ratio = fit.useful ? fit.learned->At(run.settings).log_ratio : 0;
    source.forecast += ErrorOf(run, 0) / static_cast<double>(others.size());
    source.learned += ErrorOf(run, ratio) / static_cast<double>(others.size());
  }
  return source;
}

std::vector<std::string> PublishedFiles() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(scenario::DataRoot() + "/calibration/published")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(HalfOfSourceTest, PredictsTheOtherHalf) {
  double forecast = 0, learned = 0;
  int sources = 0;
  fmt::print("| source | rows | forecast | learned |\n|---|---:|---:|---:|\n");
  for (const std::string& file : PublishedFiles()) {
    const auto simulated = validate::SimulateRuns(file, "", {});
    ASSERT_TRUE(simulated) << Format(simulated.error());
    std::vector<MeasuredRun> runs;
    for (const validate::SimulatedRun& run : *simulated) {
      if (!run.reason.empty()) continue;
      runs.push_back({run.settings, run.measured.seconds(), run.forecast.seconds()});
    }
    if (runs.size() < kLeastRows) continue;
    const Source source = HalfOf(std::filesystem::path(file).stem().string(), runs);
    if (source.rows == 0) continue;
    fmt::print("| {} | {} | {:.1f} | {:.1f} |\n", source.name, source.rows, 100 * source.forecast,
               100 * source.learned);
    std::fflush(stdout);
    EXPECT_LE(source.learned, source.forecast + kNoWorse) << source.name;
    forecast += source.forecast;
    learned += source.learned;
    ++sources;
  }
  fmt::print("| mean of {} sources | | {:.1f} | {:.1f} |\n", sources, 100 * forecast / sources,
             100 * learned / sources);
  EXPECT_LT(learned, forecast);
}

}  // namespace
}  // namespace stepcast
