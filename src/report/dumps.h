#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/formats/kineto.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_check.h"
#include "src/report/answer.h"
#include "src/report/table.h"
#include "src/scenario/schema.h"
#include "src/topology/cluster.h"
#include "src/topology/link_load.h"
#include "src/topology/node_type.h"

namespace stepcast::report {

// Returns a traced step as a model file of `kind: layers`. Comments in the file list the step's
// time breakdown, its collectives, and the data that the trace does not contain.
std::string LayerListYaml(const std::string& name, const formats::TracedStep& step);

// Returns the document of `topology show --json`: {"stepcast": 1, "topology", "nodes",
// "gpus_per_node", "ranks", "gpu", "memory_bytes", "devices": [{"name", "kind"}], "links":
// [{"from", "to", "kind", "count", "latency_s", "bandwidth_bytes_per_s"}], "ring": {...}}. Each
// direction of a link is listed separately. Bandwidths are totals of a pair's parallel links;
// `ring` describes the ring of all ranks. A flat cluster has "link" instead of devices and links.
std::string TopologyJson(const std::string& name, const topology::Cluster& cluster);

// Returns a topology as a file from which scenario::LoadTopology reads the same values. `comment`
// becomes the first lines; `sources` are the sources of the topology's values. The GPU's memory is
// omitted, because the GPU's data sheet has it.
std::string TopologyYaml(const std::string& comment, const std::string& name,
                         const std::vector<std::string>& sources,
                         const topology::NodeType& node_type,
                         const std::optional<topology::Fabric>& fabric);

// Returns a JSON Schema for the files that `schema` describes, in draft 7, which editors support.
// `name` is the kind of file, such as "scenario"; `version` is the version of its format.
std::string SchemaJson(const scenario::Schema& schema, const std::string& name, int version);

// The output of `topology show --links`: the fraction of a collective's traffic on each link.

// Returns the load of each link as text, busiest links first. Equal links with the same load share
// a line.
std::string LinkLoadText(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size,
                         const std::vector<topology::LinkLoad>& loads);

// Returns the load of each link as JSON: {"stepcast": 1, "topology", "op", "algorithm": "ring",
// "size_bytes", "ranks", "nodes", "links": [{"from", "to", "kind", "count",
// "bandwidth_bytes_per_s", "bytes", "time_s", "share_of_slowest"}]}. There is one entry for each
// link and direction of the first node and of the fabric.
std::string LinkLoadJson(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size,
                         const std::vector<topology::LinkLoad>& loads);

// The output of `stepcast schedule`.

// Returns a drawing with a row for each stage, a scale of slots, and a legend of the letters. If
// the width is too small for micro-batch numbers, each slot is one column wide. If this drawing is
// also too wide, slots of the repeating pattern in the middle are omitted, and lines below the
// drawing list the omitted slots and the required width. The text ends in a newline.
std::string ScheduleDrawing(const parallel::PipelineSchedule& schedule,
                            const parallel::ScheduleTiming& timing, const TerminalStyle& style);

// A schedule with the times of its passes. Stages are equal and communication is free.
struct TimedSchedule {
  std::string name;  // "1f1b", or the schedule's file
  parallel::PipelineSchedule schedule;
  parallel::PassDurations durations;
  parallel::ScheduleTiming timing;
  std::vector<int> in_flight;  // [stage]

  double bubble() const;  // the idle fraction of the time of all stages
};

// Returns a table with one row for each stage.
AnswerTable ScheduleStages(const TimedSchedule& timed);

// Returns a drawing with one row per stage and slots from left to right, as in papers, followed by
// a table by stage and the size of the bubble.
std::string ScheduleText(const TimedSchedule& schedule, const TerminalStyle& style);

// Returns the document of `schedule --json`: {"stepcast": 1, "schedule", "micro_batches",
// "durations": {...}, "slots", "bubble", "stages": [{"stage", "chunks", "in_flight", "busy_slots",
// "idle_slots", "actions": [{"action", "begin", "end"}]}]}.
std::string ScheduleJson(const TimedSchedule& schedule);

}  // namespace stepcast::report
