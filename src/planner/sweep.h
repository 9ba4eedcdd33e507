#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/planner/sweep_grid.h"

// Forecasts every combination of a grid, on all cores.
namespace stepcast::planner {

enum class RowStatus : std::uint8_t { kOk, kIllegal, kDoesNotFit };
const char* Name(RowStatus status);  // "ok", "illegal", "does_not_fit"

struct SweepRow {
  RowStatus status = RowStatus::kIllegal;
  Diagnostics faults;  // why the combination is illegal; empty otherwise
  // Figures of a legal combination, the same that `simulate` gives.
  Time step_time;
  double tokens_per_second_per_gpu = 0;
  Bytes peak;  // what the allocator had handed out
  Bytes over;  // by how much reserved and outside memory exceed the device, or offloaded states the
               // node
};

// Key and value of every axis.
using Settings = std::vector<std::pair<std::string, std::string>>;

// The forecast of one combination. Called from several threads at once.
using Evaluate = std::function<Result<forecast::Forecast>(const Settings&)>;

// How many rows are done. Never called from two threads at once, but from different ones.
using Progress = std::function<void(std::int64_t done)>;

// One entry per row of the grid, in its order, whatever the number of threads.
std::vector<SweepRow> Sweep(const SweepGrid& grid, const Evaluate& evaluate,
                            const Progress& progress = {});

// The mistakes that every row has, in the order of the first row: those that no combination cures.
Diagnostics CommonFaults(const std::vector<SweepRow>& rows);

}  // namespace stepcast::planner
