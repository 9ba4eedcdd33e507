#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/report/page.h"

// A chart of step time and memory of many plans or combinations. Internal to this package.
namespace stepcast::report {

// Returns, for each point, whether it is on the Pareto front: no other point is smaller in one
// value and not larger in the other.
std::vector<bool> ParetoFront(const std::vector<double>& x, const std::vector<double>& y);

struct ParetoPoint {
  std::string name;  // "data_parallel.bucket_size = 25 MiB, cluster.nodes = 4"
  Time step_time;
  Bytes peak;
  double tokens_per_second_per_gpu = 0;
  bool fits = true;         // only points that fit may be on the front
  std::int64_t tokens = 0;  // per step; 0: the same for all points
  std::int64_t gpus = 0;    // 0: the same for all points, and not shown
  // Whether no other plan is better in every respect. Not set: ParetoChart determines this from
  // step time and peak of the points that fit.
  std::optional<bool> on_front{};
};

struct ParetoFigure {
  Chart chart;
  std::string note;  // a note on omitted points; may be empty
  Table front;       // points on the front, shortest step first
};

// Returns a chart with all points on the front, and with an evenly distributed selection of the
// other points if there are many. `unfit` is the legend of points that do not fit. `memory` is the
// title of the axis for `peak`. `limit` is the capacity, if all points have the same capacity.
ParetoFigure ParetoChart(std::vector<ParetoPoint> points, const std::string& label,
                         const std::string& unfit = "does not fit",
                         const std::string& memory = "peak memory",
                         std::optional<Bytes> limit = std::nullopt);

}  // namespace stepcast::report
