#include "src/formats/measured_memory.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "src/formats/json_tree.h"
#include "src/formats/pickle.h"

namespace stepcast::formats {
namespace {

using Json = nlohmann::json;

tl::unexpected<Diagnostics> Fail(const std::string& file, const char* code, std::string message,
                                 std::string hint) {
  return tl::unexpected(Diagnostics{{code, {file, 0, 0}, std::move(message), std::move(hint)}});
}

// --- Snapshots

// The allocator rounds to this (torch c10/cuda/CUDACachingAllocator.h, kMinBlockSize). Events
// contain the requested size.
constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

std::int64_t SizeOf(const PickleValue& value, std::string_view key) {
  const PickleValue* const found = value.Find(key);
  return found == nullptr ? 0 : std::clamp<std::int64_t>(found->IntegerOr(0), 0, kMostBytes);
}

std::string_view TextOf(const PickleValue& value, std::string_view key) {
  const PickleValue* const found = value.Find(key);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

struct DeviceMemory {
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t peak_allocated = 0;
  std::int64_t peak_reserved = 0;
  std::size_t events = 0;

  void Peak() {
    peak_allocated = std::max(peak_allocated, allocated);
    peak_reserved = std::max(peak_reserved, reserved);
  }
};

void AddSegment(const PickleValue& segment, std::map<std::int64_t, DeviceMemory>& devices) {
  const PickleValue* const device = segment.Find("device");
  DeviceMemory& memory = devices[device == nullptr ? 0 : device->IntegerOr(0)];
  memory.reserved += SizeOf(segment, "total_size");
  const PickleValue* const blocks = segment.Find("blocks");
  if (blocks == nullptr) return;
  for (const PickleValue* block : blocks->items) {
    if (TextOf(*block, "state") == "active_allocated") memory.allocated += SizeOf(*block, "size");
  }
}

// Undoes events from the last to the first.
void UndoEvents(const PickleValue& events, DeviceMemory& memory) {
  for (std::size_t i = events.items.size(); i-- > 0;) {
    const PickleValue& event = *events.items[i];
    const std::string_view action = TextOf(event, "action");
    const std::int64_t size = SizeOf(event, "size");
    const std::int64_t rounded = (size + kBlock - 1) / kBlock * kBlock;
    ++memory.events;
    if (action == "alloc") {
      memory.allocated -= rounded;
    } else if (action == "free_requested") {
      memory.allocated += rounded;
    } else if (action == "segment_alloc" || action == "segment_map") {
      memory.reserved -= size;
    } else if (action == "segment_free" || action == "segment_unmap") {
      memory.reserved += size;
    } else {
      continue;
    }
    memory.Peak();
  }
}

// The number of blocks and events to be examined. One list may occur in many places, so it can far
// exceed the number of values in the file.
std::size_t Records(const PickleValue& segments, const PickleValue* traces) {
  std::size_t records = segments.items.size();
  for (const PickleValue* segment : segments.items) {
    const PickleValue* const blocks = segment->Find("blocks");
    if (blocks != nullptr) records += blocks->items.size();
  }
  if (traces == nullptr) return records;
  for (const PickleValue* trace : traces->items) records += trace->items.size();
  return records;
}

Result<MeasuredMemory> FromSnapshot(std::string_view bytes, const std::string& file) {
  const auto pickle = ParsePickle(bytes, file);
  if (!pickle) return tl::unexpected(pickle.error());
  const PickleValue& root = pickle->root();
  const PickleValue* const segments = root.Find("segments");
  if (segments == nullptr) {
    return Fail(file, "snapshot.no-peak", "the pickle has no key 'segments'",
                "use an output file of torch.cuda.memory._dump_snapshot()");
  }
  const PickleValue* const traces = root.Find("device_traces");
  constexpr std::size_t kMostRecords = 5'000'000;
  if (Records(*segments, traces) > kMostRecords) {
    return Fail(file, "pickle.too-large",
                fmt::format("the snapshot has more than {} blocks and events", kMostRecords),
                "record fewer events: "
                "torch.cuda.memory._record_memory_history(max_entries=100000)");
  }
  std::map<std::int64_t, DeviceMemory> devices;
  for (const PickleValue* segment : segments->items) AddSegment(*segment, devices);
  for (auto& [number, memory] : devices) memory.Peak();
  if (traces != nullptr) {
    for (std::size_t i = 0; i < traces->items.size(); ++i) {
      if (traces->items[i]->items.empty()) continue;
      UndoEvents(*traces->items[i], devices[static_cast<std::int64_t>(i)]);
    }
  }
  const auto fullest =
      std::max_element(devices.begin(), devices.end(), [](const auto& a, const auto& b) {
        return a.second.peak_allocated < b.second.peak_allocated;
      });
  if (fullest == devices.end() || fullest->second.peak_allocated == 0) {
    return Fail(
        file, "snapshot.no-peak", "the snapshot shows no allocation on any device",
        "write the snapshot during the job, after a step and before the tensors are released");
  }
  const DeviceMemory& memory = fullest->second;
  MeasuredMemory measured{.form = "snapshot",
                          .allocated = Bytes(memory.peak_allocated),
                          .reserved = Bytes(memory.peak_reserved),
                          .at_peak = {},
                          .notes = {}};
  if (memory.events == 0) {
    measured.notes.emplace_back(
        "the snapshot has no events, so its values are from the time of the dump, not from the "
        "peak. To record events, call torch.cuda.memory._record_memory_history() before the step");
  } else {
    measured.notes.push_back(
        fmt::format("the peak includes only the last {} events of device {}, because the snapshot "
                    "has no older events",
                    memory.events, fullest->first));
  }
  return measured;
}

// --- Summaries

std::optional<Bytes> AmountOf(std::string_view cell) {
  const auto skip = [&] { cell.remove_prefix(std::min(cell.find_first_not_of(' '), cell.size())); };
  skip();
  double number = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (error != std::errc()) return std::nullopt;
  cell.remove_prefix(static_cast<std::size_t>(end - cell.data()));
  skip();
  // Powers of 1024. Releases before 2.0 write KB for KiB.
  constexpr std::string_view kUnits = "BKMGTP";
  const std::size_t unit = cell.empty() ? std::string_view::npos : kUnits.find(cell.front());
  if (unit == std::string_view::npos || !(number >= 0)) return std::nullopt;
  const double bytes = std::ldexp(number, static_cast<int>(10 * unit));
  if (bytes > static_cast<double>(kMostBytes)) return std::nullopt;
  return Bytes(std::llround(bytes));
}

// The second number of "| Allocated memory | 1 GiB | 2 GiB | ...", the peak; the first is the
// current value.
std::optional<Bytes> PeakOf(std::string_view text, std::string_view metric) {
  std::size_t at = text.find(metric);
  if (at != std::string_view::npos) at += metric.size();
  for (int cell = 0; at != std::string_view::npos && cell < 2; ++cell) {
    at = text.find('|', at);
    if (at != std::string_view::npos) ++at;
  }
  return at == std::string_view::npos ? std::nullopt : AmountOf(text.substr(at));
}

Result<MeasuredMemory> FromSummary(std::string_view text, const std::string& file) {
  const std::optional<Bytes> allocated = PeakOf(text, "| Allocated memory");
  if (!allocated || *allocated == Bytes()) {
    return Fail(file, "snapshot.no-peak", "the summary has no peak of allocated memory",
                "use a file that contains the text of torch.cuda.memory_summary()");
  }
  MeasuredMemory measured{.form = "summary",
                          .allocated = *allocated,
                          .reserved = PeakOf(text, "| GPU reserved memory"),
                          .at_peak = {},
                          .notes = {}};
  measured.notes.emplace_back(
      "the peak is the maximum since the start of the process, or since the last "
      "torch.cuda.reset_peak_memory_stats()");
  return measured;
}

// --- Timelines

// In the order of torch.profiler's categories.
enum TimelineColumn : std::uint8_t {
  kStack,  // always 0
  kParameter,
  kOptimizerState,
  kInput,
  kTemporary,
  kActivation,
  kGradient,
  kAutogradDetail,
  kUnknown,
  kTimelineColumns,
};

MeasuredCategory CategoryOf(std::size_t column) {
  if (column == kParameter) return MeasuredCategory::kParameters;
  if (column == kOptimizerState) return MeasuredCategory::kOptimizer;
  if (column == kGradient) return MeasuredCategory::kGradients;
  return MeasuredCategory::kOther;
}

Result<MeasuredMemory> FromTimeline(std::string_view text, const std::string& file) {
  // The largest input file, 16 MiB, can contain half as many.
  constexpr std::size_t kMostValues = 4'000'000;
  const auto read = ParseJsonTree(text, kMostValues);
  if (!read) {
    return Fail(file, "file.not-json", "the JSON text cannot be read: " + read.error().what,
                "use a .json file from torch.profiler's export_memory_timeline");
  }
  const Json& document = *read;
  const bool known = document.is_array() && document.size() == 2 && document[0].is_array() &&
                     document[1].is_array();
  MeasuredMemory measured{
      .form = "timeline", .allocated = {}, .reserved = {}, .at_peak = {}, .notes = {}};
  for (const Json& row : known ? document[1] : Json::array()) {
    if (!row.is_array() || row.size() != kTimelineColumns) continue;
    std::array<Bytes, kMeasuredCategories> bytes{};
    Bytes sum;
    for (std::size_t i = 1; i < row.size(); ++i) {
      if (!row[i].is_number()) continue;
      const Bytes amount(
          std::llround(std::clamp(row[i].get<double>(), 0.0, static_cast<double>(kMostBytes))));
      bytes[static_cast<std::size_t>(CategoryOf(i))] += amount;
      sum += amount;
    }
    if (sum <= measured.allocated) continue;
    measured.allocated = sum;
    measured.at_peak = bytes;
  }
  if (measured.allocated == Bytes()) {
    return Fail(
        file, "snapshot.no-peak",
        "the JSON text is not a memory timeline of torch.profiler, which consists of a list "
        "of times and a list of sizes by category",
        "use the output file of export_memory_timeline(\"timeline.json\")");
  }
  return measured;
}

}  // namespace

Result<MeasuredMemory> ParseMeasuredMemory(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (text.starts_with('\x80')) return FromSnapshot(text, file);
  if (text.find("memory summary, device ID") != std::string_view::npos) {
    return FromSummary(text, file);
  }
  if (first != std::string_view::npos && (text[first] == '[' || text[first] == '{')) {
    return FromTimeline(text, file);
  }
  return Fail(file, "snapshot.unknown-form",
              "the file is not a PyTorch memory record in a format that stepcast reads",
              "use the output of torch.cuda.memory._dump_snapshot(), torch.cuda.memory_summary() "
              "or export_memory_timeline()");
}

}  // namespace stepcast::formats
