#include "src/planner/sweep.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "src/forecast/training_run.h"
#include "src/messaging/byte_stream.h"

namespace stepcast::planner {
namespace {

bool Same(const Diagnostic& a, const Diagnostic& b) {
  return a.code == b.code && a.message == b.message && a.location.file == b.location.file &&
         a.location.line == b.location.line && a.location.column == b.location.column;
}

}  // namespace

const char* Name(RowStatus status) {
  constexpr const char* kNames[] = {"ok", "illegal", "does_not_fit"};
  return kNames[static_cast<std::size_t>(status)];
}

bool UnequalTokens(const std::vector<SweepRow>& rows) {
  std::optional<std::int64_t> tokens;
  return std::any_of(rows.begin(), rows.end(), [&](const SweepRow& row) {
    if (row.status == RowStatus::kIllegal) return false;
    if (!tokens) tokens = row.tokens;
    return row.tokens != *tokens;
  });
}

SweepRow RowOf(Diagnostics faults) {
  SweepRow row;
  row.faults = std::move(faults);
  return row;
}

SweepRow RowOf(const forecast::Forecast& forecast, const plan::Training& training, bool has_times) {
  SweepRow row;
  const forecast::MemoryForecast& memory = forecast.memory;
  row.status = memory.fits ? RowStatus::kOk : RowStatus::kDoesNotFit;
  row.step_time = forecast.step_time;
  const forecast::TrainedStep step = forecast::TrainedStepOf(forecast);
  row.tokens = step.tokens;
  row.gpus = step.gpus;
  row.tokens_per_second_per_gpu = forecast.tokens_per_second_per_gpu;
  row.global_batch_size = training.global_batch_size;
  row.gradient_accumulation = training.gradient_accumulation;
  row.wire_bytes_per_rank = forecast.wire_bytes_per_rank;
  if (forecast.has_flops) row.mfu = forecast.mfu;
  if (has_times) row.exposed_communication = forecast.time.exposed_communication;
  row.peak = memory.peak;
  row.reserved = memory.reserved;
  row.outside = memory.outside;
  row.capacity = memory.capacity;
  row.verdict = memory.verdict();
  row.fit_probability = memory.fit_probability;
  const Bytes over = row.needed() - row.capacity;
  // A node's lack of memory counts if the devices have enough.
  const Bytes lacking =
      std::max(memory.host - memory.host_capacity, memory.drives - memory.drives_capacity);
  if (!memory.fits) row.over = over > Bytes(0) ? over : lacking;
  return row;
}

std::string ToBytes(const SweepRow& row) {
  messaging::ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(row.status));
  if (row.status == RowStatus::kIllegal) {
    writer.Number(row.faults.size());
    for (const Diagnostic& fault : row.faults) {
      writer.Text(fault.code);
      writer.Text(fault.location.file);
      writer.Signed(fault.location.line);
      writer.Signed(fault.location.column);
      writer.Text(fault.message);
      writer.Text(fault.hint);
    }
    return writer.Take();
  }
  writer.Signed(row.step_time.picoseconds());
  writer.Signed(row.tokens);
  writer.Signed(row.gpus);
  writer.Number(std::bit_cast<std::uint64_t>(row.tokens_per_second_per_gpu));
  writer.Signed(row.global_batch_size);
  writer.Signed(row.gradient_accumulation);
  writer.Number(std::bit_cast<std::uint64_t>(row.wire_bytes_per_rank));
  // A value that no row has stands for a missing one.
  writer.Number(std::bit_cast<std::uint64_t>(row.mfu.value_or(-1)));
  writer.Signed(row.exposed_communication ? row.exposed_communication->picoseconds() : -1);
  for (const Bytes bytes : {row.peak, row.reserved, row.outside, row.capacity, row.over}) {
    writer.Signed(bytes.count());
  }
  writer.Number(static_cast<std::uint64_t>(row.verdict));
  writer.Number(std::bit_cast<std::uint64_t>(row.fit_probability));
  writer.Text(ToText(row.added));
  return writer.Take();
}

std::optional<SweepRow> ToSweepRow(std::string_view bytes) {
  messaging::ByteReader reader(bytes);
  SweepRow row;
  const std::uint64_t status = reader.Number();
  if (status > static_cast<std::uint64_t>(RowStatus::kDoesNotFit)) return std::nullopt;
  row.status = static_cast<RowStatus>(status);
  if (row.status == RowStatus::kIllegal) {
    row.faults.resize(reader.Count());
    for (Diagnostic& fault : row.faults) {
      fault.code = reader.Text();
      fault.location.file = reader.Text();
      fault.location.line = static_cast<int>(reader.Signed());
      fault.location.column = static_cast<int>(reader.Signed());
      fault.message = reader.Text();
      fault.hint = reader.Text();
    }
  } else {
    row.step_time = Picoseconds(reader.Signed());
    row.tokens = reader.Signed();
    row.gpus = reader.Signed();
    row.tokens_per_second_per_gpu = std::bit_cast<double>(reader.Number());
    row.global_batch_size = reader.Signed();
    row.gradient_accumulation = reader.Signed();
    row.wire_bytes_per_rank = std::bit_cast<double>(reader.Number());
    const auto mfu = std::bit_cast<double>(reader.Number());
    if (mfu >= 0) row.mfu = mfu;
    const std::int64_t exposed = reader.Signed();
    if (exposed >= 0) row.exposed_communication = Picoseconds(exposed);
    for (Bytes* bytes : {&row.peak, &row.reserved, &row.outside, &row.capacity, &row.over}) {
      *bytes = Bytes(reader.Signed());
    }
    const std::uint64_t verdict = reader.Number();
    if (verdict > static_cast<std::uint64_t>(forecast::MemoryVerdict::kDoesNotFit)) {
      return std::nullopt;
    }
    row.verdict = static_cast<forecast::MemoryVerdict>(verdict);
    row.fit_probability = std::bit_cast<double>(reader.Number());
    row.added = ToSettings(reader.Text());
  }
  if (reader.bad() || !reader.at_end()) return std::nullopt;
  return row;
}

Settings SettingsOf(const SweepGrid& grid, std::int64_t index, const SweepRow& row) {
  Settings settings = grid.Row(index);
  settings.insert(settings.end(), row.added.begin(), row.added.end());
  return settings;
}

Work WorkOf(RowMaker make_row) {
  return [make_row = std::move(make_row)](const std::string& item) {
    return ToBytes(make_row(ToSettings(item)));
  };
}

tl::expected<SweepResult, std::string> Sweep(const SweepGrid& grid, WorkerPool& pool,
                                             ResultStore* store, const Progress& progress) {
  SweepResult result;
  result.rows.resize(static_cast<std::size_t>(grid.rows()));
  std::int64_t done = 0;
  bool readable = true;
  const auto evaluated =
      Evaluate({.count = grid.rows(),
                .item = [&](std::int64_t place) { return ToText(grid.Row(grid.RowAt(place))); },
                .done =
                    [&](std::int64_t place, const std::string& bytes) {
                      auto row = ToSweepRow(bytes);
                      readable = row.has_value();
                      if (!readable) return false;
                      result.rows[static_cast<std::size_t>(grid.RowAt(place))] = *std::move(row);
                      ++done;
                      if (progress) progress(done, result.known);
                      return true;
                    },
                .begun = [&](std::int64_t known) { result.known = known; }},
               pool, store);
  if (!evaluated) return tl::unexpected(evaluated.error());
  if (!readable) {
    if (store != nullptr) store->MarkDamaged();
    return tl::unexpected(std::string(
        "the store is damaged: a result cannot be read. Remove the store to start again"));
  }
  return result;
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
