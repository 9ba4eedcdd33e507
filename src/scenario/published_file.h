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

// Published measurements of whole training steps as YAML, calibration/published/*.yaml: one file is
// one source, one case is one row of it. Format: docs/formats.md, "Published steps".
//
// Besides what documents report in general: published.duplicate-name, published.unknown-part,
// published.nothing-measured.
namespace stepcast::scenario {

// Rows that a profile may be fitted to, and rows that only errors may be reported on.
enum class Split : std::uint8_t { kFit, kCheck };
constexpr std::string_view Name(Split split) { return split == Split::kFit ? "fit" : "check"; }

// A: dimensions, parallelism, batch, GPU type and count are stated. B: something that matters was
// assumed, or read off an image.
enum class Quality : std::uint8_t { kA, kB };
constexpr std::string_view Name(Quality quality) { return quality == Quality::kA ? "A" : "B"; }

// What a peak of memory counts.
enum class MemoryKind : std::uint8_t {
  kAllocated,  // what the framework's allocator handed out
  kReserved,   // what it held from the device
  kDriver,     // all that the driver shows of the process: context and NCCL, too
};
constexpr std::string_view Name(MemoryKind kind) {
  constexpr std::string_view kNames[] = {"allocated", "reserved", "driver"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Keys of a case, and where in the scenario their values belong.
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

// Whose peak of memory is measured.
enum class MemoryOf : std::uint8_t { kFullestRank, kFirstStage, kLastStage };

struct PublishedCase {
  std::string name;  // unique in its file
  Location location;
  Split split = Split::kCheck;
  Quality quality = Quality::kB;
  std::optional<Time> step_time;
  // In the place of a time, where a table of runs says this (runs_file.h).
  std::optional<double> tokens_per_second_per_gpu{};
  std::vector<MeasuredMemory> memory;
  MemoryOf memory_of = MemoryOf::kFullestRank;
  // Part of the peak, as printed where no time is. By which formula is not known, so that it is
  // kept and not compared.
  std::optional<double> mfu;
  // What is simulated in the place of what ran, one sentence each.
  std::vector<std::string> stand_ins;
  // Why the scenario cannot say what ran; empty: it can.
  std::string not_simulated;
  YamlTree scenario;  // parts merged; a scenario as in a file of its own
};

// What is aimed at on check rows: mean absolute errors, 0.04 is 4 %.
struct Aims {
  std::optional<double> step_time;
  std::optional<double> memory;
};

struct PublishedSource {
  std::string name;  // the file's, without .yaml
  std::string source, machine, rule;
  std::vector<std::string> notes;  // what was assumed, and what is known of errors
  // Its times are another simulator's, not measured: they count with no other source's.
  bool predicted = false;
  // No profile was fitted to its rows marked fit: it counts among the sources that were never fitted.
  bool never_fitted = false;
  Aims aims;
  std::vector<PublishedCase> cases;
};

std::optional<PublishedSource> ReadPublished(const Node& node, Diagnostics& diagnostics);
Result<PublishedSource> LoadPublished(const std::string& path);

}  // namespace stepcast::scenario
