#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/files.h"
#include "src/base/quantity.h"
#include "src/cli/collective_words.h"
#include "src/cli/command_options.h"
#include "src/cli/option_parts.h"
#include "src/cli/outputs.h"
#include "src/formats/imported_topology.h"
#include "src/formats/kineto.h"
#include "src/formats/trace_text.h"
#include "src/report/dumps.h"
#include "src/report/table.h"
#include "src/scenario/data_root.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/model_file.h"
#include "src/scenario/source_names.h"
#include "src/scenario/topology_file.h"
#include "src/topology/cluster.h"
#include "src/topology/draw.h"
#include "src/topology/link_load.h"

namespace stepcast::cli {
namespace {

// "dgx" for "dumps/dgx.xml".

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

}  // namespace

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
      faults.push_back({"command.bad-quantity", location,
                        "a NIC needs a bandwidth above zero: " + Quoted(options.nic_speed),
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
  Outcome outcome = PutText(
      options.output,
      report::TopologyYaml(
          "Written by 'stepcast topology import'. Bandwidths are those of one "
          "direction, raw.",
          options.name.empty() ? std::filesystem::path(options.file).stem().string() : options.name,
          sources, imported->node_type, imported->fabric));
  if (outcome.status == kDone) {
    for (const std::string& note : imported->notes) outcome.messages += "note: " + note + "\n";
  }
  return outcome;
}

namespace {

// Two nodes show how a fabric connects them.
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

namespace {

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

}  // namespace

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
  Outcome outcome = PutText(options.output, report::LayerListYaml(name, *step));
  if (outcome.status == kDone) {
    for (const std::string& note : step->notes) outcome.messages += "note: " + note + "\n";
  }
  return outcome;
}

namespace {

constexpr const char* kModelAbout = "Writes model files from what other tools measured.";

constexpr const char* kModelImportAbout =
    "Writes a model file, a list of layers with their times, from one traced training step of one\n"
    "rank: what torch.profiler's export_chrome_trace wrote, plain or compressed.";

constexpr const char* kModelImportFooter =
    "Layers, the sizes of their gradients and the order in which these become ready come from\n"
    "autograd's events; times are those of the slower of host and device, without communication,\n"
    "which a forecast adds: for other numbers of ranks, bucket sizes and networks. The traced\n"
    "collectives are listed in the file.\n"
    "\n"
    "Trace with CPU and CUDA activities, record_shapes=True, a schedule and step(); see\n"
    "docs/formats/other-tools.md. The import uses the step with the median duration. Without\n"
    "step(), a step ends with Optimizer.step, or the whole trace is one step. Without shapes,\n"
    "--model names the model, which has the sizes.\n"
    "\n"
    "Example:\n"
    "  stepcast model import --kineto rank0.json.gz --output my-model.yaml\n"
    "  stepcast simulate scenario.yaml --set model=my-model.yaml --set cluster.nodes=16\n"
    "\n";

constexpr const char* kTopologyAbout =
    "Shows what a topology file describes, or writes one from what other tools say of a machine.";

constexpr const char* kTopologyShowAbout =
    "Draws a topology: the devices of a node, the fabric, and every kind of link with its latency\n"
    "and its bandwidth in one direction.";

constexpr const char* kTopologyShowFooter =
    "Example:\n"
    "  stepcast topology show topologies/dgx-h100.yaml\n"
    "  stepcast topology show topologies/dgx-h100.yaml --nodes 4 --dot | dot -Tsvg > h100.svg\n"
    "  stepcast topology show topologies/dgx-h100.yaml --nodes 64 --links --op all_gather\n"
    "\n";

constexpr const char* kTopologyImportAbout =
    "Writes a topology file from what NCCL or nvidia-smi says of a machine: the XML that a job "
    "with\n"
    "NCCL_TOPO_DUMP_FILE=node.xml writes, or what `nvidia-smi topo -m` prints.";

constexpr const char* kTopologyImportFooter =
    "NCCL's XML is the better one: it has NVLinks one by one, the speed of PCIe and of NICs, and\n"
    "mostly the GPU type. nvidia-smi tells which devices are near each other and no speeds, so it\n"
    "needs --gpu, and --nic-speed where there are NICs. Neither tells latencies or what joins\n"
    "nodes; every such figure that is not from the input is named on stderr and in the file, to "
    "be\n"
    "corrected there.\n"
    "\n"
    "Example:\n"
    "  stepcast topology import node.xml --output my-node.yaml\n"
    "  nvidia-smi topo -m > matrix.txt\n"
    "  stepcast topology import matrix.txt --gpu h100-sxm --nic-speed 400Gbps > my-node.yaml\n"
    "\n";

void AddTopologyImport(Command topology, TopologyImportOptions& options) {
  Command import = topology.Add("import", kTopologyImportAbout, kTopologyImportFooter);
  import.AddOption("FILE", options.file, "NCCL's XML, or what nvidia-smi topo -m printed")
      .Required();
  import.AddOption("--gpu", options.gpu, "The GPU type, topologies/gpus/NAME.yaml (as FILE tells)")
      .Type("NAME");
  import
      .AddOption("--nic-speed", options.nic_speed,
                 "Of each NIC's port, where FILE does not tell, such as 400Gbps")
      .Type("RATE");
  import
      .AddOption("--nics", options.nics,
                 "NICs that join nodes, with commas between them, or all (those that share a PCIe "
                 "switch with a GPU, of NCCL's XML the fastest)")
      .Type("NAMES");
  import
      .AddOption("--nvlink", options.nvlink,
                 "Where NCCL's XML lists no NVLinks: assume those of a usual server, or none "
                 "(refuse)")
      .OneOf({"assume", "none"});
  import.AddOption("--name", options.name, "Name of the topology (that of FILE)").Type("TEXT");
  AddOutput(import, options.output);
}

}  // namespace

void AddModel(Command app, ModelImportOptions& options) {
  Command model = app.AddGroup("model", kModelAbout, kModelImportFooter);
  Command import = model.Add("import", kModelImportAbout, kModelImportFooter);
  import.AddOption("--kineto", options.kineto, "The trace: Chrome trace JSON, or that as .gz")
      .Type("TRACE")
      .Required();
  import.AddOption("--step", options.step, "The step ProfilerStep#N (the one of median duration)")
      .Type("N")
      .NotNegative();
  import
      .AddOption("--model", options.model,
                 "The model that was traced, whose sizes are taken where shapes were not recorded")
      .Type("MODEL");
  import.AddOption("--name", options.name, "Name of the model (that of FILE)").Type("TEXT");
  AddOutput(import, options.output);
}

void AddTopology(Command app, TopologyShowOptions& options, TopologyImportOptions& import_options) {
  Command topology = app.AddGroup("topology", kTopologyAbout, kTopologyShowFooter);
  Command show = topology.Add("show", kTopologyShowAbout, kTopologyShowFooter);
  show.AddOption("FILE", options.file, "Topology file (YAML; docs/formats.md)").Required();
  show.AddOption("--nodes", options.nodes, "How many nodes to draw").Type("N");
  Option dot = show.AddFlag("--dot", options.dot, "Print Graphviz instead of text");
  show.AddFlag("--json", options.json, "Print one JSON document instead of text").Excludes(dot);
  AddColumns(show);
  Option links = show.AddFlag("--links", options.links,
                              "Print what a collective over all ranks puts on each link")
                     .Excludes(dot);
  show.AddOption("--op", options.op, "That collective (all_reduce)").Type("NAME").Needs(links);
  show.AddOption("--size", options.size, "Its size, as nccl-tests counts it (1 GiB)")
      .Type("BYTES")
      .Needs(links);
  AddTopologyImport(topology, import_options);
}

}  // namespace stepcast::cli
