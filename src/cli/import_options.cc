#include "src/cli/import_options.h"

#include <string>

#include "src/cli/option_parts.h"

namespace stepcast::cli {
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
    "Trace with CPU and CUDA activities, record_shapes=True, a schedule and step(), see\n"
    "docs/traces.md. Of the steps traced the one of median duration is taken. Without step() "
    "steps\n"
    "end with the optimizer's, or all is one; without shapes --model says the sizes.\n"
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
