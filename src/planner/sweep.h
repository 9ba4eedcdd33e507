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

// Forecasts every combination of a grid, on all cores of one machine or of several.
namespace stepcast::planner {

enum class RowStatus : std::uint8_t { kOk, kIllegal, kDoesNotFit };
const char* Name(RowStatus status);  // "ok", "illegal", "does_not_fit"

struct SweepRow {
  RowStatus status = RowStatus::kIllegal;
  Diagnostics faults;  // why the combination is illegal; empty otherwise
  // Figures of a legal combination, as given by `simulate`.
  Time step_time;
  std::int64_t tokens = 0;  // that a step trains
  std::int64_t gpus = 0;    // that train it
  double tokens_per_second_per_gpu = 0;
  std::int64_t global_batch_size = 0, gradient_accumulation = 0;
  double wire_bytes_per_rank = 0;
  // None for a layer list, and for a sweep with more rows than SweepRun::kMostWithTimes.
  std::optional<double> mfu{};
  std::optional<Time> exposed_communication{};
  Bytes peak;      // bytes allocated by the allocator
  Bytes reserved;  // bytes held by the allocator; with `outside`, they decide whether the step fits
  Bytes outside;
  Bytes capacity;  // of a device
  // Settings that the combination needs besides its values: cluster.devices.
  Settings added{};
  // how far reserved and outside memory exceed the device, or offloaded states the node
  Bytes over;

  forecast::MemoryVerdict verdict = forecast::MemoryVerdict::kDoesNotFit;
  double fit_probability = 0;

  Bytes needed() const { return reserved + outside; }
};

// Whether legal rows have different numbers of tokens per step. Step times are then not comparable,
// and rows are compared by the time per token.
bool UnequalTokens(const std::vector<SweepRow>& rows);

// The row of a forecast. `has_times`: include where the time goes.
SweepRow RowOf(const forecast::Forecast& forecast, const plan::Training& training, bool has_times);
// The row of an illegal combination.
SweepRow RowOf(Diagnostics faults);

// Rows as bytes, for other ranks and stores. Nothing if the bytes are invalid.
std::string ToBytes(const SweepRow& row);
std::optional<SweepRow> ToSweepRow(std::string_view bytes);

// All settings of a row: its values and `added`.
Settings SettingsOf(const SweepGrid& grid, std::int64_t index, const SweepRow& row);

// Makes the row of one combination. Must be thread-safe.
using RowMaker = std::function<SweepRow(const Settings&)>;
// The same as work: items are settings (ToText), results are rows (ToBytes).
Work WorkOf(RowMaker make_row);

// Called with the number of finished rows, and how many of them came from the store. Never called
// from two threads at once, but from different ones.
using Progress = std::function<void(std::int64_t done, std::int64_t known)>;

struct SweepResult {
  // One entry per row of the grid, in order, for any number of threads.
  std::vector<SweepRow> rows;
  std::int64_t known = 0;  // rows that came from the store
};

// The pool must run WorkOf. `store` may be null. The error is a sentence: the store cannot be
// written or read, or ranks cannot be reached.
tl::expected<SweepResult, std::string> Sweep(const SweepGrid& grid, WorkerPool& pool,
                                             ResultStore* store = nullptr,
                                             const Progress& progress = {});

// The mistakes that every row has, in the order of the first row.
Diagnostics CommonFaults(const std::vector<SweepRow>& rows);

}  // namespace stepcast::planner
