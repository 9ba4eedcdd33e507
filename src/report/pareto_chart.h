#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/report/page.h"

// Step time against memory of many plans or combinations. For the .cc files of this package only.
namespace stepcast::report {

// Which points no other beats: less is better in both, and at least as good in both with one better
// is beaten. Points that are equal are all on the front.
std::vector<bool> ParetoFront(const std::vector<double>& x, const std::vector<double>& y);

struct ParetoPoint {
  std::string name;  // "data_parallel.bucket_size = 25 MiB, cluster.nodes = 4"
  Time step_time;
  Bytes peak;
  double tokens_per_second_per_gpu = 0;
  bool fits = true;         // it may be on the front
  std::int64_t tokens = 0;  // of a step; 0: the same for all, steps are compared by their time
  std::int64_t gpus = 0;    // 0: the same for all, not shown
  // Whether nothing beats it; without, that is found out from step time and peak of those that fit.
  std::optional<bool> on_front{};
};

struct ParetoFigure {
  Chart chart;
  std::string note;  // what was left out; empty if nothing
  Table front;       // those that nothing beats, shortest step first
};

// Where there are very many points, all on the front are shown and of the others an even choice.
// `unfit`: what the legend says of points that do not fit.
// `memory`: what `peak` is. `limit`: how much of it a device has, where all have as much.
ParetoFigure ParetoChart(std::vector<ParetoPoint> points, const std::string& label,
                         const std::string& unfit = "does not fit",
                         const std::string& memory = "peak memory",
                         std::optional<Bytes> limit = std::nullopt);

}  // namespace stepcast::report
