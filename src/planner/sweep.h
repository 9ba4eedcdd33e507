#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/plan/plan.h"
#include "src/planner/answers.h"
#include "src/planner/result_store.h"
#include "src/planner/sweep_grid.h"
#include "src/planner/worker_pool.h"
#include "tl/expected.hpp"

// Forecasts every combination of a grid, on all cores of one machine or of several machines.
namespace stepcast::planner {

enum class RowStatus : std::uint8_t { kOk, kIllegal, kDoesNotFit };
const char* Name(RowStatus status);  // "ok", "illegal", "does_not_fit"

struct SweepRow {
  RowStatus status = RowStatus::kIllegal;
  Diagnostics faults;  // the reasons why the combination is illegal; empty if it is legal
  // The members below are the forecast of a legal combination, as `simulate` returns it.
  Time step_time;
  std::int64_t tokens = 0;  // tokens trained in a step
  std::int64_t gpus = 0;    // number of GPUs used for training
  double tokens_per_second_per_gpu = 0;
  std::int64_t global_batch_size = 0, gradient_accumulation = 0;
  double wire_bytes_per_rank = 0;
  // Not set for a layer list, and for a sweep with more than SweepRun::kMostWithTimes rows.
  std::optional<double> mfu{};
  std::optional<Time> exposed_communication{};
  Bytes peak;      // bytes allocated by the allocator
  Bytes reserved;  // bytes reserved by the allocator; with `outside`, determines whether the step
                   // fits
  Bytes outside;
  Bytes capacity;  // per device
  // Settings that the combination needs in addition to its values, such as cluster.devices.
  Settings added{};
  // The bytes by which reserved and outside memory exceed the device's memory, or by which
  // offloaded states exceed the node's memory.
  Bytes over;

  forecast::MemoryVerdict verdict = forecast::MemoryVerdict::kDoesNotFit;
  double fit_probability = 0;

  Bytes needed() const { return reserved + outside; }
};

// Returns whether legal rows have different numbers of tokens per step. Step times are then not
// comparable, and rows are compared by the time per token.
bool UnequalTokens(const std::vector<SweepRow>& rows);

// Converts a forecast to a row. If `has_times`, the row includes the time breakdown.
SweepRow RowOf(const forecast::Forecast& forecast, const plan::Training& training, bool has_times);
// Returns the row for an illegal combination.
SweepRow RowOf(Diagnostics faults);

// ToBytes converts a row to bytes, for other ranks and stores. ToSweepRow reads a row and returns
// no value if the bytes are invalid.
std::string ToBytes(const SweepRow& row);
std::optional<SweepRow> ToSweepRow(std::string_view bytes);

// Returns all settings of a row: its values and `added`.
Settings SettingsOf(const SweepGrid& grid, std::int64_t index, const SweepRow& row);

// A function that computes the row of one combination. The function must be thread-safe.
using RowMaker = std::function<SweepRow(const Settings&)>;
// Returns a worker function for a pool, which calls `make_row`. Items are settings (ToText), and
// results are rows (ToBytes).
Work WorkOf(RowMaker make_row);

// Receives the numbers of finished rows and of rows from the store. Called from different threads,
// but never from two at once.
using Progress = std::function<void(std::int64_t done, std::int64_t known)>;

struct SweepResult {
  // One entry per row of the grid, in the grid's order.
  std::vector<SweepRow> rows;
  std::int64_t known = 0;  // number of rows that came from the store
};

// Forecasts all rows of the grid. The pool must run the result of WorkOf. `store` may be null. An
// error is a sentence: the store cannot be written or read, or ranks cannot be reached.
tl::expected<SweepResult, std::string> Sweep(const SweepGrid& grid, WorkerPool& pool,
                                             ResultStore* store = nullptr,
                                             const Progress& progress = {});

// Returns the mistakes that all rows have, in the order of the first row.
Diagnostics CommonFaults(const std::vector<SweepRow>& rows);

}  // namespace stepcast::planner
