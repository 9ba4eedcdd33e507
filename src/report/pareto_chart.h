#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/report/page.h"

// Step time against memory of many plans or combinations. Internal to this package.
namespace stepcast::report {

// Which points are on the Pareto front, where less is better. A point is dominated if another is at
// least as good in both values and better in one. Equal points are all on the front.
std::vector<bool> ParetoFront(const std::vector<double>& x, const std::vector<double>& y);

struct ParetoPoint {
  std::string name;  // "data_parallel.bucket_size = 25 MiB, cluster.nodes = 4"
  Time step_time;
  Bytes peak;
  double tokens_per_second_per_gpu = 0;
  bool fits = true;         // only such points may be on the front
  std::int64_t tokens = 0;  // per step; 0: the same for all, so step times are compared
  std::int64_t gpus = 0;    // 0: the same for all, not shown
  // Whether no plan dominates it. If absent, it is computed from step time and peak of the points
  // that fit.
  std::optional<bool> on_front{};
};

struct ParetoFigure {
  Chart chart;
  std::string note;  // a note on points left out; may be empty
  Table front;       // points on the front, shortest step first
};

// If there are very many points, it shows all on the front and an even selection of the others.
// `unfit`: legend of points that do not fit. `memory`: name of `peak`. `limit`: the capacity, if it
// is the same for all.
ParetoFigure ParetoChart(std::vector<ParetoPoint> points, const std::string& label,
                         const std::string& unfit = "does not fit",
                         const std::string& memory = "peak memory",
                         std::optional<Bytes> limit = std::nullopt);

}  // namespace stepcast::report
