#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"

// Measured memory is what PyTorch says that one rank has allocated, in bytes. A file has one of
// three forms, which the reader tells apart by their content:
//
//   snapshot   torch.cuda.memory._dump_snapshot(FILE): a pickle (pickle.h) of the caching allocator's
//              segments and of what it did before (torch/csrc/cuda/memory_snapshot.cpp). From the
//              state at the end its events are undone one after the other, so that the peak is known
//              as far back as events were kept.
//   summary    the text of torch.cuda.memory_summary() (torch/cuda/memory.py): peaks since the start,
//              in whole KiB, MiB or GiB.
//   timeline   torch.profiler's export_memory_timeline(FILE.json) (torch/profiler/
//              _memory_profiler.py): bytes by category at every change. The peak is that of their sum.
//
// Mistakes: snapshot.unknown-form, snapshot.no-peak (nothing of the kind in the file), those of
// pickles, file.not-json.
namespace stepcast::formats {

// The categories of a timeline, put together as forecasts have them.
enum class MeasuredCategory : std::uint8_t { kParameters, kGradients, kOptimizer, kOther };
inline constexpr int kMeasuredCategories = 4;

struct MeasuredMemory {
  std::string form;               // "snapshot", "summary", "timeline"
  Bytes allocated;                // the peak of what the allocator had handed out
  std::optional<Bytes> reserved;  // the peak of what it held from the device
  // The bytes of each category that were alive at the peak; nothing where the file does not tell.
  std::optional<std::array<Bytes, kMeasuredCategories>> at_peak;
  std::vector<std::string> notes;  // sentences without a full stop
};

Result<MeasuredMemory> ParseMeasuredMemory(std::string_view text, const std::string& file);

}  // namespace stepcast::formats
