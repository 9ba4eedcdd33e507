#include "src/cli/topology_import_command.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/base/text_file.h"
#include "src/cli/output_text.h"
#include "src/formats/imported_topology.h"
#include "src/formats/nccl_topology.h"
#include "src/formats/nvidia_smi_topology.h"
#include "src/report/topology_yaml.h"
#include "src/scenario/gpu_file.h"

namespace stepcast::cli {
namespace {

// "dgx" of "dumps/dgx.xml".

// Of "mlx5_0,mlx5_3".
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

}  // namespace stepcast::cli
