#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"

// The memory that PyTorch reports as allocated by one rank, in bytes. A file has one of three
// forms, which are recognized by their content:
//
// - snapshot: torch.cuda.memory._dump_snapshot(FILE), a pickle (pickle.h) of the caching
//   allocator's segments and of its past events (torch/csrc/cuda/memory_snapshot.cpp). The events
//   are undone from the final state backward, so the peak is known as far back as events were kept.
// - summary: the text of torch.cuda.memory_summary() (torch/cuda/memory.py): peaks since the start,
//   in whole KiB, MiB or GiB.
// - timeline: torch.profiler's export_memory_timeline(FILE.json)
//   (torch/profiler/_memory_profiler.py): bytes by category at every change. The peak is that of
//   their sum.
//
// Mistakes: snapshot.unknown-form, snapshot.no-peak (the file contains no peak), those of pickles,
// file.not-json.
namespace stepcast::formats {

// The categories of memory in a timeline, grouped as in forecasts.
enum class MeasuredCategory : std::uint8_t { kParameters, kGradients, kOptimizer, kOther };
inline constexpr int kMeasuredCategories = 4;

struct MeasuredMemory {
  std::string form;               // "snapshot", "summary", "timeline"
  Bytes allocated;                // peak of the memory handed out by the allocator
  std::optional<Bytes> reserved;  // peak of the memory held from the device
  // The bytes of each category at the peak. None if the file does not state them.
  std::optional<std::array<Bytes, kMeasuredCategories>> at_peak;
  std::vector<std::string> notes;  // sentences without a full stop
};

Result<MeasuredMemory> ParseMeasuredMemory(std::string_view text, const std::string& file);

}  // namespace stepcast::formats
