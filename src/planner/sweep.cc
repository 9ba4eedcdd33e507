#include "src/planner/sweep.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>

#include "oneapi/tbb/blocked_range.h"
#include "oneapi/tbb/parallel_for.h"

namespace stepcast::planner {
namespace {

SweepRow Row(const Result<forecast::Forecast>& forecast) {
  SweepRow row;
  if (!forecast.has_value()) {
    row.faults = forecast.error();
    return row;
  }
  const forecast::MemoryForecast& memory = forecast->memory;
  row.status = memory.fits ? RowStatus::kOk : RowStatus::kDoesNotFit;
  row.step_time = forecast->step_time;
  row.tokens_per_second_per_gpu = forecast->tokens_per_second_per_gpu;
  row.peak = memory.peak;
  const Bytes over = memory.reserved + memory.outside - memory.capacity;
  // What a node lacks counts where its devices have room.
  const Bytes lacking =
      std::max(memory.host - memory.host_capacity, memory.drives - memory.drives_capacity);
  if (!memory.fits) row.over = over > Bytes(0) ? over : lacking;
  return row;
}

bool Same(const Diagnostic& a, const Diagnostic& b) {
  return a.code == b.code && a.message == b.message && a.location.file == b.location.file &&
         a.location.line == b.location.line && a.location.column == b.location.column;
}

}  // namespace

const char* Name(RowStatus status) {
  switch (status) {
    case RowStatus::kOk:
      return "ok";
    case RowStatus::kIllegal:
      return "illegal";
    case RowStatus::kDoesNotFit:
      return "does_not_fit";
  }
  return "";
}

std::vector<SweepRow> Sweep(const SweepGrid& grid, const Evaluate& evaluate,
                            const Progress& progress) {
  std::vector<SweepRow> rows(static_cast<std::size_t>(grid.rows()));
  std::atomic<std::int64_t> done{0};
  std::mutex reporting;
  // Rows differ widely in cost (an illegal one is nothing), so they are dealt out one at a time.
  oneapi::tbb::parallel_for(
      oneapi::tbb::blocked_range<std::int64_t>(0, grid.rows(), 1),
      [&](const oneapi::tbb::blocked_range<std::int64_t>& range) {
        for (std::int64_t row = range.begin(); row != range.end(); ++row) {
          rows[static_cast<std::size_t>(row)] = Row(evaluate(grid.Row(row)));
          ++done;
          if (!progress) continue;
          // Who finds another thread reporting leaves it at that.
          const std::unique_lock<std::mutex> lock(reporting, std::try_to_lock);
          if (lock.owns_lock()) progress(done.load());
        }
      },
      oneapi::tbb::simple_partitioner());
  return rows;
}

Diagnostics CommonFaults(const std::vector<SweepRow>& rows) {
  if (rows.empty()) return {};
  Diagnostics common;
  std::copy_if(rows.front().faults.begin(), rows.front().faults.end(), std::back_inserter(common),
               [&](const Diagnostic& fault) {
                 return std::all_of(rows.begin(), rows.end(), [&](const SweepRow& row) {
                   return std::any_of(row.faults.begin(), row.faults.end(),
                                      [&](const Diagnostic& other) { return Same(fault, other); });
                 });
               });
  return common;
}

}  // namespace stepcast::planner
