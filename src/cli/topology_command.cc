#include "src/cli/topology_command.h"

#include <variant>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/cli/collective_words.h"
#include "src/report/link_load_report.h"
#include "src/report/text_wrap.h"
#include "src/report/topology_json.h"
#include "src/scenario/data_root.h"
#include "src/scenario/source_names.h"
#include "src/scenario/topology_file.h"
#include "src/topology/cluster.h"
#include "src/topology/draw.h"
#include "src/topology/link_load.h"

namespace stepcast::cli {
namespace {

// Two nodes show how a fabric joins them.
std::optional<std::int64_t> DefaultNodes(const scenario::Topology& topology) {
  const auto* nodes = std::get_if<scenario::NodeDescription>(&topology.description);
  if (nodes == nullptr) return std::nullopt;
  return nodes->fabric.has_value() ? 2 : 1;
}

}  // namespace

Outcome TopologyShow(const TopologyShowOptions& options) {
  const std::optional<std::string> path =
      scenario::FindSource(options.file, "", scenario::SourceKind::kTopology);
  if (!path) {
    return WrongInput({{"file.not-found",
                        {options.file, 0, 0},
                        "there is no such file",
                        scenario::PlacesTried(options.file, "")}});
  }
  const auto topology = scenario::LoadTopology(*path);
  if (!topology) return WrongInput(topology.error());
  Diagnostics diagnostics;
  const Location location{options.nodes ? fmt::format("--nodes {}", *options.nodes) : options.file,
                          0, 0};
  const std::optional<topology::Cluster> cluster = scenario::BuildCluster(
      *topology, options.nodes ? options.nodes : DefaultNodes(*topology), location, diagnostics);
  if (!cluster) return WrongInput(diagnostics);

  Outcome outcome;
  if (options.links) {
    const auto kind = ReadCollective("--op", options.op, diagnostics);
    const auto size = ReadSize("--size", options.size, diagnostics);
    if (!diagnostics.empty()) return WrongInput(diagnostics);
    const auto loads = topology::RingLoads(*cluster, *kind, *size);
    if (!loads) {
      return WrongInput({{"command.bad-group",
                          {"--op " + options.op, 0, 0},
                          fmt::format("no rings over {} ranks carry this here: {}",
                                      cluster->devices(), Quoted(options.op)),
                          "it needs several ranks with links between them, and a collective that "
                          "runs as a ring: all_reduce, reduce_scatter, all_gather, broadcast"}});
    }
    outcome.output =
        options.json
            ? report::LinkLoadJson(topology->name, *cluster, *kind, *size, *loads)
            : report::Wrapped(report::LinkLoadText(topology->name, *cluster, *kind, *size, *loads));
    return outcome;
  }
  if (options.json) {
    outcome.output = report::TopologyJson(topology->name, *cluster);
    return outcome;
  }
  outcome.output = options.dot
                       ? topology::DrawDot(*cluster)
                       : fmt::format("{}\n\n{}", topology->name, topology::DrawText(*cluster));
  return outcome;
}

}  // namespace stepcast::cli
