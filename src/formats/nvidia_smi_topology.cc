#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/files.h"
#include "src/formats/gpu_models.h"
#include "src/formats/topology_import.h"

namespace stepcast::formats {
namespace {

using topology::DeviceKind;
using topology::LinkKind;

// A word of the text, which must outlive it.
struct Word {
  std::string_view text;
  int line = 0;
  int column = 0;
};
using Row = std::vector<Word>;

// Replaces escape sequences (underlined headings) by blanks, so that columns stay in place.
std::string WithoutEscapes(std::string_view text) {
  constexpr char kEscape = '\x1b';
  std::string plain(text);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] != kEscape) continue;
    std::size_t end = i + 1;
    if (end < plain.size() && plain[end] == '[') {
      do {
        ++end;
      } while (end < plain.size() && (plain[end] < '@' || plain[end] > '~') && plain[end] != '\n');
      if (end < plain.size() && plain[end] != '\n') ++end;
    }
    std::fill(plain.begin() + static_cast<std::ptrdiff_t>(i),
              plain.begin() + static_cast<std::ptrdiff_t>(std::min(end, plain.size())), ' ');
  }
  return plain;
}

// Replaces the bars of tables and the prefixes of comments by blanks.
std::string WithoutQuoting(std::string text) {
  std::replace(text.begin(), text.end(), '|', ' ');
  bool at_start = true;
  for (char& c : text) {
    if (c == '\n') {
      at_start = true;
    } else if (at_start && (c == '>' || c == '#' || c == '/' || c == '*')) {
      c = ' ';
    } else if (c != ' ' && c != '\t' && c != '\r') {
      at_start = false;
    }
  }
  return text;
}

// The words of all nonblank lines.
std::vector<Row> RowsOf(std::string_view text) {
  std::vector<Row> rows;
  std::size_t line_start = 0;
  int line = 1;
  bool begins = true;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') {
      begins = true;
      line_start = ++i;
      ++line;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
    } else {
      if (std::exchange(begins, false)) rows.emplace_back();
      const std::size_t end = std::min(text.find_first_of(" \t\r\n", i), text.size());
      rows.back().push_back({text.substr(i, end - i), line, static_cast<int>(i - line_start) + 1});
      i = end;
    }
  }
  return rows;
}

std::optional<int> Number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool IsGpu(std::string_view name) {
  return name.starts_with("GPU") && Number(name.substr(3)).has_value();
}

class Reader : TopologyImport {
 public:
  Reader(std::string_view text, const std::string& file, const ImportOptions& options)
      : TopologyImport(options), text_(WithoutQuoting(WithoutEscapes(text))), file_(file) {}

  Result<ImportedTopology> Run() {
    if (!CheckText(text_, file_, mistakes_)) return Mistakes();
    rows_ = RowsOf(text_);
    if (!FindHeading() || !ReadMatrix() || !ChooseNics()) return Mistakes();
    const GpuModel* model = FindGpuModel(options_.gpu);
    if (options_.gpu.empty()) {
      Report("topology.unknown-gpu", {file_, 0, 0},
             "the output of nvidia-smi topo -m does not include the GPU type",
             "specify the GPU type with --gpu (topologies/gpus/NAME.yaml)");
    } else if (model == nullptr) {
      Report("topology.unknown-gpu", {"--gpu " + options_.gpu, 0, 0},
             fmt::format("the links of the GPU type {} are unknown", Quoted(options_.gpu)),
             "import NCCL's XML file instead (NCCL_TOPO_DUMP_FILE), which contains the links");
    }
    if (nics_ > 0 && !options_.nic_speed) {
      Report("topology.no-speed", {file_, 0, 0},
             "the output of nvidia-smi topo -m does not include the speed of the NICs",
             "add the speed: --nic-speed 400Gbps");
    }
    if (!mistakes_.empty()) return Mistakes();
    Build(*model);
    return Finish(At(heading_.front()));
  }

 private:
  Location At(const Word& word) const { return {file_, word.line, word.column}; }

  // Finds the first line with column names: GPU0 GPU1 ... NIC0 ... CPU Affinity NUMA Affinity
  bool FindHeading() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      if (row.empty() || row[0].text != "GPU0" || (row.size() > 1 && row[1].text == "X")) continue;
      for (const Word& word : row) {
        if (word.text == "CPU" || word.text == "NUMA") break;
        heading_.push_back(word);
      }
      first_row_ = i + 1;
      break;
    }
    if (heading_.empty()) {
      Report("topology.not-smi", {file_, 1, 1}, "the file has no matrix that begins with GPU0",
             "use a file with the output of 'nvidia-smi topo -m'");
      return false;
    }
    for (const Word& word : heading_) {
      if (IsGpu(word.text) && nics_ == 0) {
        ++gpus_;
      } else {
        ++nics_;
      }
    }
    if (gpus_ <= topology::kMostNodeDevices && nics_ <= topology::kMostNodeDevices) return true;
    Report("topology.bad-matrix", At(heading_.front()),
           fmt::format("a node can have at most {} devices of the same kind, but the node has {} "
                       "GPUs and {} NICs",
                       topology::kMostNodeDevices, gpus_, nics_),
           "");
    return false;
  }

  std::size_t devices() const { return heading_.size(); }

  static bool IsClass(std::string_view word) {
    static const std::set<std::string_view> classes = {"X",   "SYS", "NODE", "PHB",
                                                       "PXB", "PIX", "SOC"};
    if (classes.contains(word)) return true;
    return word.starts_with("NV") && Number(word.substr(2)).value_or(0) > 0 &&
           *Number(word.substr(2)) <= topology::kMostParallelLinks;
  }

  bool ReadMatrix() {
    matrix_.resize(devices());
    std::vector<bool> seen(devices());
    for (std::size_t i = first_row_; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      if (row.empty()) continue;
      if (row[0].text.starts_with("Legend")) {
        ReadLegend(i + 1);
        break;
      }
      const auto named = std::find_if(heading_.begin(), heading_.end(),
                                      [&](const Word& word) { return word.text == row[0].text; });
      if (named == heading_.end()) continue;
      const auto at = static_cast<std::size_t>(named - heading_.begin());
      if (seen[at]) {
        Report("topology.bad-matrix", At(row[0]),
               fmt::format("the matrix has two rows for {}", Quoted(row[0].text)),
               "keep only one of the two rows");
        return false;
      }
      seen[at] = true;
      if (row.size() < devices() + 1) {
        Report("topology.bad-matrix", At(row[0]),
               fmt::format("the row has only {} of {} columns: {}", row.size() - 1, devices(),
                           Quoted(row[0].text)),
               "copy the complete output again, because the row is incomplete");
        continue;
      }
      for (std::size_t j = 0; j < devices(); ++j) {
        const Word& word = row[j + 1];
        if (!IsClass(word.text) || (word.text == "X") != (at == j)) {
          Report("topology.bad-matrix", At(word),
                 fmt::format("the type of the connection from {} to {} is unknown: {}", row[0].text,
                             heading_[j].text, Quoted(word.text)),
                 "copy the output again: the connection types are X (the device itself), NV#, PIX, "
                 "PXB, PHB, NODE and SYS");
        }
        matrix_[at].push_back(word);
      }
      // CPU affinity, then NUMA affinity if it is a single node.
      if (at < static_cast<std::size_t>(gpus_) && row.size() > devices() + 2) {
        numa_[at] = row[devices() + 2].text;
      }
    }
    for (std::size_t i = 0; i < devices(); ++i) {
      if (!seen[i]) {
        Report("topology.bad-matrix", At(heading_[i]),
               fmt::format("the matrix has no row for the following device: {}",
                           Quoted(heading_[i].text)),
               "copy the complete output");
      }
    }
    if (!mistakes_.empty()) return false;
    for (std::size_t i = 0; i < devices(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (matrix_[i][j].text == matrix_[j][i].text) continue;
        Report(
            "topology.bad-matrix", At(matrix_[i][j]),
            fmt::format("the type of the connection from {} to {} is {}, but in the opposite "
                        "direction the type is {}",
                        heading_[i].text, heading_[j].text, matrix_[i][j].text, matrix_[j][i].text),
            "copy the output again, because a connection has the same type in both directions");
      }
    }
    return mistakes_.empty();
  }

  // "NIC0: mlx5_0"
  void ReadLegend(std::size_t from) {
    for (std::size_t i = from; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      if (row.size() < 2 || !row[0].text.ends_with(':')) continue;
      names_[std::string(row[0].text.substr(0, row[0].text.size() - 1))] = row[1].text;
    }
  }

  // Leaves out NICs that do not join nodes.
  bool ChooseNics() {
    const auto gpus = static_cast<std::size_t>(gpus_);
    const auto shares_switch = [&](std::size_t nic) {
      return std::any_of(matrix_[nic].begin(), matrix_[nic].begin() + gpus_,
                         [](const Word& word) { return word.text == "PIX" || word.text == "PXB"; });
    };
    std::vector<bool> kept(devices(), true);
    std::set<std::string> unknown(options_.nics.begin(), options_.nics.end());
    bool any_shares = false;
    for (std::size_t i = gpus; i < devices(); ++i) any_shares = any_shares || shares_switch(i);
    std::string left_out;
    for (std::size_t i = gpus; i < devices(); ++i) {
      const std::string name(heading_[i].text);
      const auto legend = names_.find(name);
      const std::string& device = legend == names_.end() ? name : legend->second;
      if (options_.nics.empty()) {
        kept[i] = !any_shares || shares_switch(i);
      } else if (!options_.AllNics()) {
        kept[i] = unknown.erase(name) + unknown.erase(device) > 0;
      }
      if (kept[i]) continue;
      left_out += fmt::format("{}{}", left_out.empty() ? "" : ", ", device);
    }
    if (!options_.AllNics()) {
      for (const std::string& name : unknown) {
        Report("topology.unknown-nic", {"--nics " + name, 0, 0},
               fmt::format("the matrix has no NIC with this name: {}", Quoted(name)),
               "give --nics names from the matrix or its legend, or write --nics all");
      }
    }
    if (!mistakes_.empty()) return false;
    if (left_out.empty()) return true;
    Note(options_.nics.empty()
             ? fmt::format(
                   "NICs that share no PCIe switch with a GPU are ignored, because such NICs "
                   "usually serve storage or management (to include them, add --nics all): {}",
                   left_out)
             : fmt::format("NICs that --nics does not list are ignored: {}", left_out));
    for (std::size_t i = devices(); i-- > gpus;) {
      if (kept[i]) continue;
      const auto at = static_cast<std::ptrdiff_t>(i);
      heading_.erase(heading_.begin() + at);
      matrix_.erase(matrix_.begin() + at);
      for (Row& row : matrix_) row.erase(row.begin() + at);
      --nics_;
    }
    return true;
  }

  int NvLinks(std::size_t i, std::size_t j) const {
    const std::string_view word = matrix_[i][j].text;
    return word.starts_with("NV") ? Number(word.substr(2)).value_or(0) : 0;
  }

  // Numbers of the sets with at least `least` devices, in the order of their first device.
  std::map<std::size_t, std::size_t> Numbered(DisjointSets& sets, std::size_t least) const {
    std::map<std::size_t, std::size_t> sizes;
    for (std::size_t i = 0; i < devices(); ++i) ++sizes[sets.Find(i)];
    std::map<std::size_t, std::size_t> numbers;
    std::size_t next = 0;
    for (std::size_t i = 0; i < devices(); ++i) {
      if (sets.Find(i) == i && sizes[i] >= least) numbers[i] = next++;
    }
    return numbers;
  }

  void Build(const GpuModel& model) {
    const auto gpus = static_cast<std::size_t>(gpus_);
    DisjointSets switches(devices());
    DisjointSets cpus(devices());
    for (std::size_t i = 0; i < devices(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const std::string_view word = matrix_[i][j].text;
        if (word == "PIX" || word == "PXB") switches.Join(i, j);
        if (word == "PIX" || word == "PXB" || word == "PHB" || word == "NODE") cpus.Join(i, j);
      }
    }
    // NVLinks hide the PCIe route between GPUs, so use their NUMA nodes.
    for (std::size_t i = 0; i < gpus; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (!numa_[i].empty() && numa_[i] == numa_[j] && Number(numa_[i])) cpus.Join(i, j);
      }
    }
    const auto switch_numbers = Numbered(switches, 2);
    const auto cpu_numbers = Numbered(cpus, 1);
    const Bandwidth pcie = PcieBandwidth(GigatransfersOf(model.pcie_generation), 16);

    LinkNvLinks(model);
    std::map<std::size_t, std::size_t> cpu_of_switch;
    for (std::size_t i = 0; i < devices(); ++i) {
      const DeviceKind kind = i < gpus ? DeviceKind::kGpu : DeviceKind::kNic;
      const std::size_t index = i < gpus ? i : i - gpus;
      const std::size_t cpu = cpu_numbers.at(cpus.Find(i));
      if (const auto on = switch_numbers.find(switches.Find(i)); on != switch_numbers.end()) {
        Add(LinkKind::kPcie, kind, index, DeviceKind::kPcieSwitch, on->second, 1, kPcieLatency,
            pcie);
        cpu_of_switch[on->second] = cpu;
      } else {
        Add(LinkKind::kPcie, kind, index, DeviceKind::kCpu, cpu, 1, kPcieLatency, pcie);
      }
    }
    for (const auto& [number, cpu] : cpu_of_switch) {
      Add(LinkKind::kPcie, DeviceKind::kPcieSwitch, number, DeviceKind::kCpu, cpu, 1, kPcieLatency,
          pcie);
    }
    for (std::size_t i = 0; i < cpu_numbers.size(); ++i) {
      for (std::size_t j = i + 1; j < cpu_numbers.size(); ++j) {
        Add(LinkKind::kCpuInterconnect, DeviceKind::kCpu, i, DeviceKind::kCpu, j, 1, kCpuLatency,
            BetweenCpus(std::nullopt));
      }
    }
    node_type_.gpu = options_.gpu;
    SetCount(DeviceKind::kGpu, gpus);
    SetCount(DeviceKind::kNic, devices() - gpus);
    SetCount(DeviceKind::kPcieSwitch, switch_numbers.size());
    SetCount(DeviceKind::kCpu, cpu_numbers.size());
    Note(fmt::format(
        "the input does not specify the speed of PCIe. Assumed: 16 lanes of generation {}, as "
        "for the GPU type {}",
        model.pcie_generation, model.name));
    Note(
        "the input does not specify the PCIe switches. Assumed: one PCIe switch for each group of "
        "devices with PIX or PXB connections");
    if (cpu_numbers.size() > 1) {
      Note(BetweenUnknownCpusNote());
    }
    if (nics_ > 0) {
      fabric_ = OneSwitch(*options_.nic_speed);
      Note(kFabricNote);
      Note("assumed: the NICs connect nodes at the speed of --nic-speed");
    } else {
      Note("the input has no NIC, so the topology has a single node");
    }
  }

  void LinkNvLinks(const GpuModel& model) {
    const auto gpus = static_cast<std::size_t>(gpus_);
    int most = 0;
    for (std::size_t i = 0; i < gpus; ++i) {
      int links = 0;
      for (std::size_t j = 0; j < gpus; ++j) links += NvLinks(i, j);
      most = std::max(most, links);
    }
    if (most == 0) return;
    if (model.nvlinks == 0) {
      Report("topology.bad-matrix", At(heading_.front()),
             fmt::format("the matrix has NVLinks, but GPUs of the type {} have no NVLinks",
                         Quoted(model.name)),
             "specify the correct GPU type with --gpu");
      return;
    }
    if (most <= model.nvlinks) {
      for (std::size_t i = 0; i < gpus; ++i) {
        for (std::size_t j = i + 1; j < gpus; ++j) {
          if (NvLinks(i, j) == 0) continue;
          Add(LinkKind::kNvLink, DeviceKind::kGpu, i, DeviceKind::kGpu, j, NvLinks(i, j),
              kNvLinkLatency, model.nvlink);
        }
      }
      return;
    }
    SetCount(DeviceKind::kNvSwitch, 1);
    for (std::size_t i = 0; i < gpus; ++i) {
      int links = 0;
      for (std::size_t j = 0; j < gpus; ++j) links = std::max(links, NvLinks(i, j));
      if (links == 0) continue;
      Add(LinkKind::kNvLink, DeviceKind::kGpu, i, DeviceKind::kNvSwitch, 0, links, kNvLinkLatency,
          model.nvlink);
    }
    Note("the input does not specify the number of NVSwitches. Assumed: one switch with all links");
  }

  std::string text_;
  const std::string& file_;
  std::vector<Row> rows_;
  Row heading_;
  std::size_t first_row_ = 0;
  int gpus_ = 0;
  int nics_ = 0;
  std::vector<Row> matrix_;
  std::map<std::size_t, std::string> numa_;   // of GPUs
  std::map<std::string, std::string> names_;  // of NICs, by the legend
};

}  // namespace

Result<ImportedTopology> ParseNvidiaSmiTopology(std::string_view text, const std::string& file,
                                                const ImportOptions& options) {
  return Reader(text, file, options).Run();
}

}  // namespace stepcast::formats
