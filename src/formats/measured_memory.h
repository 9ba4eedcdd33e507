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
// formats, which is detected from the content:
//
//  - snapshot: torch.cuda.memory._dump_snapshot(FILE), a pickle (pickle.h) of the caching
//    allocator's segments and past events (torch/csrc/cuda/memory_snapshot.cpp). The peak is
//    computed backward from the final state, over the recorded events.
//   - summary: the text of torch.cuda.memory_summary() (torch/cuda/memory.py): peaks since the
//     start, in whole KiB, MiB or GiB.
//   - timeline: torch.profiler's export_memory_timeline(FILE.json)
//     (torch/profiler/_memory_profiler.py): bytes by category at every change. The peak is the
//     maximum of the sum over categories.
//
// Errors: snapshot.unknown-form, snapshot.no-peak (the file contains no peak), errors of pickle.h,
// file.not-json.
namespace stepcast::formats {

// The categories of memory in a timeline, grouped as in forecasts.
enum class MeasuredCategory : std::uint8_t { kParameters, kGradients, kOptimizer, kOther };
inline constexpr int kMeasuredCategories = 4;

struct MeasuredMemory {
  std::string form;               // "snapshot", "summary", "timeline"
  Bytes allocated;                // peak of the bytes allocated to tensors
  std::optional<Bytes> reserved;  // peak of the bytes reserved on the device
  // The bytes of each category at the peak. None if the file has no categories.
  std::optional<std::array<Bytes, kMeasuredCategories>> at_peak;
  std::vector<std::string> notes;  // sentences without a period
};

Result<MeasuredMemory> ParseMeasuredMemory(std::string_view text, const std::string& file);

}  // namespace stepcast::formats
