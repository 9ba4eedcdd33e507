#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/forecast/values.h"
#include "src/formats/kineto.h"
#include "src/formats/measured_memory.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_check.h"
#include "src/report/table.h"
#include "src/scenario/schema.h"
#include "src/topology/cluster.h"
#include "src/topology/link_load.h"
#include "src/topology/node_type.h"

namespace stepcast::report {

// A traced step as a model file of `kind: layers`. Its comments say where the step's time went,
// which collectives it had, and what the trace did not tell.
std::string LayerListYaml(const std::string& name, const formats::TracedStep& step);

// `topology show --json`: {"stepcast": 1, "topology", "nodes", "gpus_per_node", "ranks", "gpu",
// "memory_bytes", "devices": [{"name", "kind"}], "links": [{"from", "to", "kind", "count",
// "latency_s", "bandwidth_bytes_per_s"}], "ring": {...}}. Links are listed once for each direction,
// bandwidths are those of all parallel links of a pair together; `ring` is what all ranks together
// have between them. A flat cluster has neither devices nor links, but "link".
std::string TopologyJson(const std::string& name, const topology::Cluster& cluster);

// A topology as a file that scenario::LoadTopology reads back to the same values. `comment` becomes
// its first lines; `sources` say where the figures come from. The node type's GPU memory, which the
// GPU's data sheet has, is not written.
std::string TopologyYaml(const std::string& comment, const std::string& name,
                         const std::vector<std::string>& sources,
                         const topology::NodeType& node_type,
                         const std::optional<topology::Fabric>& fabric);

// A JSON Schema (draft 7, which editors know) of the files that a schema describes. `name`: of the
// files, "scenario"; `version`: of their format.
std::string SchemaJson(const scenario::Schema& schema, const std::string& name, int version);

// The output of `topology show --links`: how much of a collective crosses each link.

// Links that are alike and carry the same share a line; the busiest come first.
std::string LinkLoadText(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size,
                         const std::vector<topology::LinkLoad>& loads);

// {"stepcast": 1, "topology", "op", "algorithm": "ring", "size_bytes", "ranks", "nodes", "links":
// [{"from", "to", "kind", "count", "bandwidth_bytes_per_s", "bytes", "time_s",
// "share_of_slowest"}]}, one entry for each link and direction of the first node and the fabric.
std::string LinkLoadJson(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size,
                         const std::vector<topology::LinkLoad>& loads);

// The output of `stepcast schedule`.

// A row for each stage, a scale of slots below, and what the letters stand for. Where the width has
// no room for the numbers of micro-batches, a slot is one column; slots that it has no room for
// even then are left out in the middle, where steps repeat themselves. Lines say what is left out,
// and which width would have room for it. Ends in a newline.
std::string ScheduleDrawing(const parallel::PipelineSchedule& schedule,
                            const parallel::ScheduleTiming& timing, const TerminalStyle& style);

// A schedule and what it amounts to with equal stages and free communication.
struct TimedSchedule {
  std::string name;  // "1f1b", or the file that it is from
  parallel::PipelineSchedule schedule;
  parallel::PassDurations durations;
  parallel::ScheduleTiming timing;
  std::vector<int> in_flight;  // [stage]
};

// A row for each stage and slots from left to right, as papers draw schedules; then a table by
// stage, and the bubble (dumps.h).
std::string ScheduleText(const TimedSchedule& schedule, const TerminalStyle& style);

// `schedule --json`: {"stepcast": 1, "schedule", "micro_batches", "durations": {...}, "slots",
// "bubble", "stages": [{"stage", "chunks", "in_flight", "busy_slots", "idle_slots", "actions":
// [{"action", "begin", "end"}]}]}.
std::string ScheduleJson(const TimedSchedule& schedule);

// What a job's memory was measured to be beside the forecast of it. A measurement has fewer
// categories than a forecast: what it does not tell apart is one row.

struct MeasuredComparison {
  std::string scenario;  // its name
  std::string file;      // that the measurement is of
  const formats::MeasuredMemory* measured = nullptr;
  const forecast::MemoryForecast* forecast = nullptr;
};

// Differences are the forecast less what was measured, per cent are of the measurement.
std::string MeasuredMemoryText(const MeasuredComparison& comparison);

// The document of `compare --memory --json`, version 1. Everything but its last key, `run`, depends
// on the input alone; `seconds` is the wall-clock time of the run.
std::string MeasuredMemoryJson(const MeasuredComparison& comparison, double seconds);

}  // namespace stepcast::report
