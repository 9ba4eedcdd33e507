#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/scenario/document.h"

// Published measurements of training steps as YAML, calibration/published/*.yaml. Each file has the
// cases of one source. Format: docs/formats.md, "Published steps".
//
// Errors, in addition to the errors of document.h: published.duplicate-name,
// published.unknown-part, published.nothing-measured.
namespace stepcast::scenario {

// The use of a case. kFit: for fitting profiles. kCheck: only for reporting errors.
enum class Split : std::uint8_t { kFit, kCheck };
constexpr std::string_view Name(Split split) { return split == Split::kFit ? "fit" : "check"; }

// The quality of a source. kA: the source states dimensions, parallelism, batch, GPU type and GPU
// count. kB: an important value was assumed or read from an image.
enum class Quality : std::uint8_t { kA, kB };
constexpr std::string_view Name(Quality quality) { return quality == Quality::kA ? "A" : "B"; }

// The memory that a measured peak counts.
enum class MemoryKind : std::uint8_t {
  kAllocated,  // bytes that the framework's allocator allocated to tensors
  kReserved,   // bytes that the framework's allocator reserved on the device
  kDriver,     // all bytes that the driver shows for the process, including context and NCCL
};
constexpr std::string_view Name(MemoryKind kind) {
  constexpr std::string_view kNames[] = {"allocated", "reserved", "driver"};
  return kNames[static_cast<std::size_t>(kind)];
}

// The keys of a case, and the scenario keys that these keys set.
struct CaseKey {
  std::string_view key, section, name;
};
inline constexpr CaseKey kCaseKeys[] = {
    {"nodes", "cluster", "nodes"},
    {"sequence_length", "training", "sequence_length"},
    {"micro_batch_size", "training", "micro_batch_size"},
    {"gradient_accumulation", "training", "gradient_accumulation"},
    {"global_batch_size", "training", "global_batch_size"},
    {"tensor", "parallelism", "tensor"},
    {"sequence_parallel", "parallelism", "sequence_parallel"},
    {"tensor_overlap", "training", "tensor_overlap"},
    {"pipeline", "parallelism", "pipeline"},
    {"virtual_stages", "parallelism", "virtual_stages"},
    {"stage_layers", "parallelism", "stage_layers"},
    {"context", "parallelism", "context"},
    {"context_method", "parallelism", "context_method"},
    {"expert", "parallelism", "expert"},
    {"shard_group_size", "data_parallel", "shard_group_size"},
};

struct MeasuredMemory {
  MemoryKind kind = MemoryKind::kAllocated;
  Bytes peak;
};

// The rank on which the memory peak was measured.
enum class MemoryOf : std::uint8_t { kFullestRank, kFirstStage, kLastStage };

struct PublishedCase {
  std::string name;  // unique in its file
  Location location;
  Split split = Split::kCheck;
  Quality quality = Quality::kB;
  std::optional<Time> step_time;
  // Throughput from a table of runs, if the table does not state a time (runs_file.h).
  std::optional<double> tokens_per_second_per_gpu{};
  std::vector<MeasuredMemory> memory;
  MemoryOf memory_of = MemoryOf::kFullestRank;
  // The MFU, as a fraction of the peak rate, if the source states the MFU instead of a time. The
  // MFU is not compared with the forecast, because the formula of the source is unknown.
  std::optional<double> mfu;
  // The differences between the simulation and the run, one sentence each.
  std::vector<std::string> stand_ins;
  // The reason why no scenario can describe the run. Empty if a scenario can describe the run.
  std::string not_simulated;
  YamlTree scenario;  // a complete scenario, with all parts merged
};

// The target errors for check rows, as mean absolute relative errors: 0.04 is 4 %.
struct Aims {
  std::optional<double> step_time;
  std::optional<double> memory;
};

struct PublishedSource {
  std::string name;  // name of the file, without .yaml
  std::string source, machine, rule;
  std::vector<std::string> notes;  // assumptions, and known errors
  // Whether the times are predictions of another simulator. Predicted times are not combined with
  // times of other sources.
  bool predicted = false;
  // Whether no profile was fitted to the fit rows of this source. The source then belongs to the
  // group without fitted profiles.
  bool never_fitted = false;
  Aims aims;
  std::vector<PublishedCase> cases;
};

std::optional<PublishedSource> ReadPublished(const Node& node, Diagnostics& diagnostics);
Result<PublishedSource> LoadPublished(const std::string& path);

}  // namespace stepcast::scenario
