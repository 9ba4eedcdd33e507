#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/base/quantity.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/foreign/import.h"
#include "src/formats/imported_topology.h"
#include "src/formats/kineto.h"
#include "src/formats/trace_text.h"
#include "src/report/dumps.h"
#include "src/report/table.h"
#include "src/scenario/data_root.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/load.h"
#include "src/scenario/memory_document.h"
#include "src/scenario/model_file.h"
#include "src/scenario/source_names.h"
#include "src/scenario/topology_file.h"
#include "src/topology/cluster.h"
#include "src/topology/draw.h"
#include "src/topology/link_load.h"

namespace stepcast::cli {
namespace {

// The names in "mlx5_0,mlx5_3".
std::vector<std::string> NamesIn(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) names.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

bool IsXml(std::string_view text, std::string_view path) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return first == std::string_view::npos ? path.ends_with(".xml") : text[first] == '<';
}

struct TopologyImportOptions {
  std::string file;       // NCCL's XML, or output of nvidia-smi topo -m
  std::string gpu;        // empty: from the file
  std::string nic_speed;  // empty: from the file
  std::string nics;       // names separated by commas, or "all"; empty: by rule
  std::string nvlink;     // "assume" or "none", if the file lists none; empty: refuse
  std::string name;       // empty: the file's name
  std::string output;     // empty: stdout
};

Outcome TopologyImport(const TopologyImportOptions& options) {
  Diagnostics faults;
  formats::ImportOptions import;
  import.gpu = options.gpu;
  if (!options.nic_speed.empty()) {
    const Location location{"--nic-speed " + options.nic_speed, 0, 0};
    const auto speed = ParseBandwidth(options.nic_speed);
    if (!speed) {
      faults.push_back(
          {"command.bad-quantity", location, speed.error().message, speed.error().hint});
    } else if (*speed == Bandwidth()) {
      faults.push_back(
          {"command.bad-quantity", location,
           "the bandwidth of a NIC must be more than zero: " + Quoted(options.nic_speed),
           "write for example '400 Gbps'"});
    } else {
      import.nic_speed = *speed;
    }
  }
  import.nics = NamesIn(options.nics);
  if (options.nvlink == "assume") import.missing_nvlinks = formats::MissingNvLinks::kAssume;
  if (options.nvlink == "none") import.missing_nvlinks = formats::MissingNvLinks::kNone;
  if (!options.gpu.empty()) {
    scenario::FindGpu(options.gpu, "", {"--gpu " + options.gpu, 0, 0}, faults);
  }
  const std::optional<std::string> text = ReadAnyFile(options.file, faults);
  if (!text || !faults.empty()) return WrongInput(faults);

  const bool xml = IsXml(*text, options.file);
  const auto imported = xml ? formats::ParseNcclTopology(*text, options.file, import)
                            : formats::ParseNvidiaSmiTopology(*text, options.file, import);
  if (!imported) return WrongInput(imported.error());

  std::vector<std::string> sources = {
      fmt::format("devices and links: {}", xml ? "NCCL_TOPO_DUMP_FILE" : "nvidia-smi topo -m")};
  sources.insert(sources.end(), imported->notes.begin(), imported->notes.end());
  return PutText(
      options.output,
      report::TopologyYaml(
          "Written by 'stepcast topology import'. Each bandwidth is the raw bandwidth of one "
          "direction.",
          options.name.empty() ? std::filesystem::path(options.file).stem().string() : options.name,
          sources, imported->node_type, imported->fabric),
      imported->notes);
}

// Two nodes show how a fabric connects them.
std::optional<std::int64_t> DefaultNodes(const scenario::Topology& topology) {
  const auto* nodes = std::get_if<scenario::NodeDescription>(&topology.description);
  if (nodes == nullptr) return std::nullopt;
  return nodes->fabric.has_value() ? 2 : 1;
}

struct TopologyShowOptions {
  std::string file;                   // topologies/*.yaml
  std::optional<std::int64_t> nodes;  // default: two with a fabric, otherwise one
  bool dot = false;                   // Graphviz instead of text
  bool json = false;                  // one JSON document instead of text
  bool links = false;                 // the load of a collective on each link
  std::string op = "all_reduce";      // the collective
  std::string size = "1 GiB";         // and its size
};

Outcome TopologyShow(const TopologyShowOptions& options) {
  const std::optional<std::string> path =
      scenario::FindSource(options.file, "", scenario::SourceKind::kTopology);
  if (!path) {
    const auto meant = scenario::FilesMeant(options.file, "cluster.topology");
    return WrongInput(
        "file.not-found", options.file, "no topology has this name or path",
        meant.empty()
            ? scenario::PlacesTried(options.file, "") +
                  "; to list the names, run stepcast list topologies"
            : fmt::format("did you mean '{}'? To list all names, run stepcast list topologies",
                          fmt::join(meant, "', or '")));
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
      return WrongInput(
          "command.bad-group", "--op " + options.op,
          fmt::format("the collective cannot use rings over the {} ranks of the topology: {}",
                      cluster->devices(), Quoted(options.op)),
          "use a topology with links and at least two devices; set --op to all_reduce, "
          "reduce_scatter, all_gather or broadcast");
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

// "rank0" for "traces/rank0.pt.trace.json.gz".
std::string NameOfTrace(std::string_view path) {
  path = path.substr(path.rfind('/') + 1);
  for (const std::string_view ending : {".gz", ".json", ".trace", ".pt"}) {
    if (path.size() > ending.size() && path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return std::string(path);
}

// The elements of a model's parameters in registration order.
Result<std::vector<std::int64_t>> SizesOf(const std::string& model) {
  std::vector<std::int64_t> sizes;
  if (model.empty()) return sizes;
  const auto path = scenario::FindSource(model, "", scenario::SourceKind::kModel);
  const auto loaded = scenario::LoadModel(path.value_or(model));
  if (!loaded) return tl::make_unexpected(loaded.error());
  for (const auto& tensor : loaded->model.tensors) sizes.push_back(tensor.elements);
  return sizes;
}

struct ModelImportOptions {
  std::string kineto;                // a trace of torch.profiler
  std::optional<std::int64_t> step;  // nothing: the step of median duration
  std::string model;                 // the traced model; empty: the trace has shapes
  std::string name;                  // empty: the file's name
  std::string output;                // empty: stdout
};

Outcome ModelImport(const ModelImportOptions& options) {
  Diagnostics faults;
  auto trace = formats::TraceText::Open(options.kineto, faults);
  if (!trace) return WrongInput(faults);
  const auto sizes = SizesOf(options.model);
  if (!sizes) return WrongInput(sizes.error());
  const auto step = formats::ParseKineto([&trace] { return trace->Next(); }, options.kineto,
                                         options.step, *sizes);
  if (!faults.empty()) return WrongInput(faults);  // the trace file is truncated
  if (!step) return WrongInput(step.error());
  const std::string name = options.name.empty() ? NameOfTrace(options.kineto) : options.name;
  return PutText(options.output, report::LayerListYaml(name, *step), step->notes);
}

void DescribeTopologyImport(Question& question, TopologyImportOptions& options) {
  question.Argument("FILE", &options.file).Required();
  question.Option("--gpu", &options.gpu, "NAME");
  question.Option("--nic-speed", &options.nic_speed, "RATE");
  question.Option("--nics", &options.nics, "NAMES");
  question.Option("--nvlink", &options.nvlink, "TEXT").OneOf({"assume", "none"});
  question.Option("--name", &options.name, "TEXT");
  AddOutput(question, options.output);
}

void DescribeModelImport(Question& question, ModelImportOptions& options) {
  question.Option("--kineto", &options.kineto, "TRACE").Required();
  question.Option("--step", &options.step, "N").NotNegative();
  question.Option("--model", &options.model, "MODEL");
  question.Option("--name", &options.name, "TEXT");
  AddOutput(question, options.output);
}

void DescribeTopologyShow(Question& question, TopologyShowOptions& options) {
  question.Argument("FILE", &options.file).Required();
  question.Option("--nodes", &options.nodes, "N");
  question.Flag("--dot", &options.dot);
  question.Flag("--json", &options.json).Excludes({"--dot"});
  AddColumns(question);
  question.Flag("--links", &options.links).Excludes({"--dot"});
  question.Option("--op", &options.op, "NAME").Needs({"--links"});
  question.Option("--size", &options.size, "BYTES").Needs({"--links"});
}

}  // namespace

Command ModelImportCommand() {
  return MakeCommand<ModelImportOptions>("model import", DescribeModelImport, ModelImport);
}

Command TopologyShowCommand() {
  return MakeCommand<TopologyShowOptions>("topology show", DescribeTopologyShow, TopologyShow);
}

Command TopologyImportCommand() {
  return MakeCommand<TopologyImportOptions>("topology import", DescribeTopologyImport,
                                            TopologyImport);
}

namespace {

struct InitOptions {
  ScenarioFiles files;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string output;            // file to write; empty: stdout
  bool force = false;            // replace that file
};

// The mistakes that prevent a forecast, at the origins of the scenario's values.
Diagnostics Obstacles(const foreign::Imported& imported) {
  const scenario::MemoryDocument document(imported.title, imported.scenario.text);
  scenario::InputCache cache;
  auto loaded = scenario::Load(document.name(), {}, cache);
  if (loaded) return {};
  return foreign::AtOrigins(std::move(loaded.error()), imported.title, imported.scenario);
}

// Makes a scenario from other programs' configurations. Status kAnswerIsNo if the scenario's plan
// cannot be forecast; the scenario is written all the same.
Outcome Init(const InitOptions& options) {
  std::error_code error;
  if (!options.force && std::filesystem::is_regular_file(options.output, error)) {
    return WrongInput(
        "file.exists", options.output,
        "the file already exists and may contain your changes: " + Quoted(options.output),
        "write the path of another file after --output, or replace the existing file with --force");
  }
  foreign::ImportRequest request = ImportRequestOf(options.files, options.set);
  request.absolute_paths = !std::filesystem::path(options.output).parent_path().empty();
  request.states_software = true;
  request.takes_scenario = true;
  auto imported = foreign::Import(request);
  if (!imported) return WrongInput(imported.error());
  imported->assumed.clear();  // the scenario itself marks assumed values
  const Diagnostics obstacles = Obstacles(*imported);
  Outcome outcome = PutText(options.output, imported->scenario.text);
  if (outcome.status != kDone) return outcome;
  outcome.messages = ImportMessages(*imported);
  if (!options.output.empty()) outcome.messages += "stepcast: wrote " + options.output + "\n";
  if (!obstacles.empty()) {
    outcome.status = kAnswerIsNo;
    outcome.messages +=
        "Before stepcast can forecast this scenario, correct the following mistakes:\n" +
        Format(obstacles);
  }
  return outcome;
}

void DescribeInit(Question& question, InitOptions& options) {
  question.Argument("FILE", &options.files.files).Required();
  question.Option("--set", &options.set, "KEY=VALUE");
  AddImport(question, options.files);
  question.Option("-o,--output", &options.output, kFile);
  question.Flag("--force", &options.force);
}

}  // namespace

Command InitCommand() { return MakeCommand<InitOptions>("init", DescribeInit, Init); }

}  // namespace stepcast::cli
