#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"
#include "src/base/text_lines.h"
#include "src/report/answers.h"

namespace stepcast::report {
namespace {

using calibration::Curve;
using calibration::KernelCosts;
using Row = std::vector<std::string>;

class Writer {
 public:
  void Line(int depth, std::string_view text) {
    text_.append(static_cast<std::size_t>(2 * depth), ' ');
    text_ += text;
    text_ += '\n';
  }

  template <typename... Arguments>
  void Entry(int depth, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    Line(depth, fmt::format(format, std::forward<Arguments>(arguments)...));
  }

  // "key:" and one line per row, with right-aligned columns.
  void Rows(int depth, std::string_view key, const std::vector<Row>& rows) {
    if (rows.empty()) return;
    Entry(depth, "{}:", key);
    std::vector<std::size_t> widths(rows.front().size(), 0);
    for (const Row& row : rows) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const Row& row : rows) {
      std::string line = "- [";
      for (std::size_t i = 0; i < row.size(); ++i) {
        line += fmt::format("{}{:>{}}", i == 0 ? "" : ", ", row[i], widths[i]);
      }
      Line(depth + 1, line + "]");
    }
  }

  void Points(int depth, std::string_view key, const Curve& curve) {
    std::vector<Row> rows;
    for (const auto& [bytes, time] : curve) rows.push_back({ExactBytes(bytes), ExactTime(time)});
    Rows(depth, key, rows);
  }

  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

template <typename ByType>
bool Any(const ByType& by_type) {
  return std::any_of(by_type.begin(), by_type.end(),
                     [](const auto& entry) { return !entry.empty(); });
}

void WriteSurfaces(std::string_view key,
                   const std::array<calibration::GemmSurface, kDataTypeCount>& surfaces,
                   Writer& writer) {
  if (!Any(surfaces)) return;
  writer.Entry(1, "{}:  # m, n, k, time", key);
  for (DataType type : kDataTypes) {
    const calibration::GemmSurface& surface = surfaces[static_cast<std::size_t>(type)];
    std::vector<Row> rows;
    for (std::size_t m = 0; m < surface.m.size(); ++m) {
      for (std::size_t n = 0; n < surface.n.size(); ++n) {
        for (std::size_t k = 0; k < surface.k.size(); ++k) {
          rows.push_back({std::to_string(surface.m[m]), std::to_string(surface.n[n]),
                          std::to_string(surface.k[k]), ExactTime(surface.at(m, n, k))});
        }
      }
    }
    writer.Rows(2, Name(type), rows);
  }
}

void WriteCores(std::string_view key,
                const std::array<calibration::AttentionSurface, kDataTypeCount>& surfaces,
                Writer& writer) {
  if (!Any(surfaces)) return;
  writer.Entry(1, "{}:  # heads, sequence, head size, time", key);
  for (DataType type : kDataTypes) {
    std::vector<Row> rows;
    for (const calibration::AttentionCurve& curve : surfaces[static_cast<std::size_t>(type)]) {
      for (const auto& [sequence, time] : curve.points) {
        rows.push_back({std::to_string(curve.heads), std::to_string(sequence),
                        std::to_string(curve.head_size), ExactTime(time)});
      }
    }
    writer.Rows(2, Name(type), rows);
  }
}

void WriteTraffic(const KernelCosts& kernels, Writer& writer) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kAccessCount; ++i) {
    if (kernels.traffic[i] != 0) {
      parts.push_back(fmt::format("{}: {}", kAccessNames[i], kernels.traffic[i]));
    }
  }
  if (!parts.empty()) writer.Entry(1, "traffic: {{{}}}", fmt::join(parts, ", "));
}

void WriteUnalignedBatches(const KernelCosts& kernels, Writer& writer) {
  if (!kernels.batched_unaligned.empty()) writer.Line(1, "batched_unaligned:");
  for (const calibration::UnalignedBatches& batches : kernels.batched_unaligned) {
    std::vector<std::string> parts;
    if (batches.torch != Version()) {
      parts.push_back(fmt::format("torch: \"{}.{}\"", batches.torch.major, batches.torch.minor));
    }
    for (DataType type : kDataTypes) {
      const double part = batches.rate[static_cast<std::size_t>(type)];
      if (part != 0) parts.push_back(fmt::format("{}: {}", Name(type), part));
    }
    writer.Entry(2, "- {{{}}}", fmt::join(parts, ", "));
  }
}

void WriteAttention(const KernelCosts& kernels, int depth, Writer& writer) {
  const auto known = [](const calibration::AttentionEfficiency& a) { return a.forward != 0; };
  if (std::any_of(kernels.attention.begin(), kernels.attention.end(), known)) {
    writer.Line(depth, "attention:");
  }
  for (std::size_t i = 0; i < kernels.attention.size(); ++i) {
    const calibration::AttentionEfficiency& attention = kernels.attention[i];
    if (!known(attention)) continue;
    writer.Entry(
        depth + 1,
        "{}: {{forward: {}, backward: {}, forward_half_length: {}, backward_half_length: {}, "
        "forward_rows: {}, backward_rows: {}, forward_tail: {}, backward_tail: {}, head_64: {}, "
        "head_256: {}, forward_window_length: {}, forward_unshared_length: {}, "
        "forward_start: {}}}",
        calibration::kFusedNames[i], attention.forward, attention.backward,
        std::llround(attention.forward_half_length), std::llround(attention.backward_half_length),
        std::llround(attention.forward_rows), std::llround(attention.backward_rows),
        attention.forward_tail, attention.backward_tail, attention.head_64, attention.head_256,
        std::llround(attention.forward_window_length),
        std::llround(attention.forward_unshared_length), ExactTime(attention.forward_start));
  }
  if (kernels.power != calibration::PowerDraw()) {
    std::string others = kernels.power.memory == 0
                             ? std::string()
                             : fmt::format(", memory_watts: {}", kernels.power.memory);
    for (DataType type : kDataTypes) {
      const double watts = kernels.power.of_type[static_cast<std::size_t>(type)];
      if (watts != 0) others += fmt::format(", {}_watts: {}", Name(type), watts);
    }
    writer.Entry(depth, "power: {{idle_watts: {}, products_watts: {}{}}}", kernels.power.idle,
                 kernels.power.products, others);
  }
}

void WriteGemm(const KernelCosts& kernels, int depth, Writer& writer) {
  const bool any = std::any_of(kernels.gemm.begin(), kernels.gemm.end(),
                               [](const auto& gemm) { return gemm.max_efficiency != 0; });
  if (any || Any(kernels.gemm_tiling)) writer.Line(depth, "gemm:");
  for (DataType type : kDataTypes) {
    const calibration::GemmTiling& tiling = kernels.gemm_tiling[static_cast<std::size_t>(type)];
    if (!tiling.empty()) {
      std::string tiles;
      for (const calibration::GemmTile& tile : tiling.tiles) {
        tiles += fmt::format("{}[{}, {}, {}]", tiles.empty() ? "" : ", ", tile.m, tile.n,
                             tile.efficiency);
      }
      std::string others;
      for (const auto& [key, value, none] :
           {std::tuple("add_fill", tiling.add_fill, 0),
            std::tuple("last_wave", tiling.last_wave, 1), std::tuple("grouped", tiling.grouped, 1),
            std::tuple("overlap", tiling.overlap, 0), std::tuple("split", tiling.split, 1)}) {
        if (value != none) others += fmt::format("{}: {}, ", key, value);
      }
      writer.Entry(depth + 1, "{}: {{tiles: [{}], fill: {}, {}start: {}}}", Name(type), tiles,
                   tiling.fill, others, ExactTime(tiling.start));
    }
    const calibration::GemmEfficiency& gemm = kernels.gemm[static_cast<std::size_t>(type)];
    if (gemm.max_efficiency == 0) continue;
    writer.Entry(depth + 1, "{}: {{max_efficiency: {}, half_flops: {}}}", Name(type),
                 gemm.max_efficiency, std::llround(gemm.half_flops));
  }
}

void WriteKernels(const KernelCosts& kernels, Writer& writer) {
  writer.Line(0, "kernels:");
  WriteGemm(kernels, 1, writer);
  WriteAttention(kernels, 1, writer);
  WriteTraffic(kernels, writer);
  WriteUnalignedBatches(kernels, writer);
  const std::pair<std::string_view, double> efficiencies[] = {
      {"gemm_unaligned", kernels.gemm_unaligned},
      {"gemm_unaligned_even", kernels.gemm_unaligned_even},
      {"gemm_unaligned_result", kernels.gemm_unaligned_result},
      {"variation", kernels.variation},
      {"jitter", kernels.jitter},
      {"attention_forward_efficiency", kernels.attention_forward_efficiency},
      {"attention_backward_efficiency", kernels.attention_backward_efficiency},
      {"memory_efficiency", kernels.memory_efficiency},
  };
  for (const auto& [key, value] : efficiencies) {
    if (value != 0) writer.Entry(1, "{}: {}", key, value);
  }
  writer.Entry(1, "start_latency: {}", ExactTime(kernels.start_latency));
  writer.Entry(1, "launch: {}", ExactTime(kernels.launch));
  if (kernels.collective_launch > Time()) {
    writer.Entry(1, "collective_launch: {}", ExactTime(kernels.collective_launch));
  }
  if (kernels.token_sum_time > Time()) {
    writer.Entry(1, "token_sum_time: {}", ExactTime(kernels.token_sum_time));
  }
  writer.Points(1, "memory_curve", kernels.memory_curve);
  writer.Points(1, "optimizer_curve", kernels.optimizer_curve);
  WriteCores("attention_forward_surface", kernels.attention_forward_surface, writer);
  WriteCores("attention_backward_surface", kernels.attention_backward_surface, writer);
  WriteSurfaces("gemm_surface", kernels.gemm_surface, writer);
  WriteSurfaces("gemm_input_gradient_surface", kernels.gemm_input_gradient_surface, writer);
  WriteSurfaces("gemm_weight_gradient_surface", kernels.gemm_weight_gradient_surface, writer);
}

void WriteHost(const std::map<std::string, Dispatch, std::less<>>& dispatch, Writer& writer) {
  if (dispatch.empty()) return;
  writer.Line(0, "host:");
  writer.Line(1, "dispatch:");
  for (const auto& [framework, costs] : dispatch) {
    writer.Entry(2, "{}: {{module: {}, autograd: {}}}", framework, ExactTime(costs.module),
                 ExactTime(costs.autograd));
  }
}

void WriteLinks(const calibration::LinkCosts& links, Writer& writer) {
  writer.Line(0, "links:");
  writer.Entry(1, "nvlink_efficiency: {}", links.nvlink_efficiency);
  writer.Entry(1, "pcie_efficiency: {}", links.pcie_efficiency);
  writer.Entry(1, "network_efficiency: {}", links.network_efficiency);
  if (links.jitter != 0) writer.Entry(1, "jitter: {}", links.jitter);
  const auto algorithm = [&](std::string_view name, Time base, Time nvlink, Time pcie,
                             Time network) {
    writer.Entry(1, "{}: {{base: {}, nvlink_hop: {}, pcie_hop: {}, network_hop: {}}}", name,
                 ExactTime(base), ExactTime(nvlink), ExactTime(pcie), ExactTime(network));
  };
  algorithm("ring", links.ring_base, links.ring_nvlink_hop, links.ring_pcie_hop,
            links.ring_network_hop);
  algorithm("tree", links.tree_base, links.tree_nvlink_hop, links.tree_pcie_hop,
            links.tree_network_hop);
}

void WriteMemory(const calibration::MemoryCosts& memory, Writer& writer) {
  writer.Line(0, "memory:");
  writer.Entry(1, "context: {}", ExactBytes(memory.context));
  writer.Entry(1, "first_communicator: {}", ExactBytes(memory.first_communicator));
  writer.Entry(1, "next_communicator: {}", ExactBytes(memory.next_communicator));
  writer.Entry(1, "gemm_workspace: {}", ExactBytes(memory.gemm_workspace));
}

void WriteCollectives(const std::vector<calibration::CollectiveTable>& tables, Writer& writer) {
  if (tables.empty()) return;
  writer.Line(0, "collectives:");
  for (const calibration::CollectiveTable& table : tables) {
    writer.Entry(1, "- collective: {}", Name(table.collective));
    writer.Entry(2, "ranks: {}", table.ranks);
    writer.Entry(2, "nodes: {}", table.nodes);
    writer.Points(2, "points", table.points);
    std::vector<Row> rows;
    for (const auto& [low, high] : table.quantiles) {
      rows.push_back({ExactTime(low), ExactTime(high)});
    }
    writer.Rows(2, "quantiles", rows);
  }
}

}  // namespace

std::string CalibrationYaml(const calibration::Calibration& profile) {
  Writer writer;
  writer.Line(0, "# Written by 'stepcast calibrate'. Format: docs/formats.md.");
  writer.Entry(0, "name: {}", YamlQuoted(profile.name));
  if (profile.gpus.size() == 1) {
    writer.Entry(0, "gpu: {}", YamlQuoted(profile.gpus.front()));
  } else if (!profile.gpus.empty()) {
    std::vector<std::string> gpus;
    for (const std::string& gpu : profile.gpus) gpus.push_back(YamlQuoted(gpu));
    writer.Entry(0, "gpu: [{}]", fmt::join(gpus, ", "));
  }
  writer.Line(0, "provenance:");
  for (const auto& [key, value] : profile.provenance) {
    writer.Entry(1, "{}: {}", YamlQuoted(key), YamlQuoted(value));
  }
  if (profile.kernels) WriteKernels(*profile.kernels, writer);
  WriteHost(profile.dispatch, writer);
  if (profile.links) WriteLinks(*profile.links, writer);
  if (profile.memory) WriteMemory(*profile.memory, writer);
  if (profile.copies != calibration::CopyCurves()) {
    writer.Line(0, "copies:  # bytes moved, time");
    writer.Points(1, "host_to_device", profile.copies.host_to_device);
    writer.Points(1, "device_to_host", profile.copies.device_to_host);
    writer.Points(1, "device_to_device", profile.copies.device_to_device);
    if (profile.copies.both_ways != 0) {
      writer.Entry(1, "both_ways: {}", profile.copies.both_ways);
    }
  }
  WriteCollectives(profile.collectives, writer);
  if (!profile.interference.empty()) writer.Line(0, "interference:");
  for (const calibration::Interference& entry : profile.interference) {
    writer.Entry(1,
                 "- {{kernel: {}, collective: {}, kernel_slowdown: {}, collective_slowdown: {}}}",
                 Name(entry.kernel), Name(entry.collective), entry.kernel_slowdown,
                 entry.collective_slowdown);
  }
  if (!profile.residuals.empty()) writer.Line(0, "residuals:");
  for (const calibration::Residual& residual : profile.residuals) {
    writer.Entry(1, "{}: {{spread: {}, interpolation: {}}}", YamlQuoted(residual.of),
                 residual.spread, residual.interpolation);
  }
  return writer.Take();
}

std::string WithSections(const std::string& profile, const std::string& sections) {
  // Calls `section(key, text)` for each section, with the comments before it.
  const auto each = [&profile](std::string_view text, const auto& section) {
    std::string key, own, comments;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      begin = end + 1;
      if (line.starts_with('#')) {
        // What an earlier calibration said of itself.
        const bool written = line.starts_with("# Written by") && text == profile;
        if (!written) comments += fmt::format("{}\n", line);
        continue;
      }
      if (!line.empty() && line.front() != ' ') {
        if (!key.empty()) section(key, own);
        key = line.substr(0, line.find(':'));
        own.clear();
      }
      own += std::exchange(comments, "") + fmt::format("{}\n", line);
    }
    if (!key.empty()) section(key, own + comments);
  };
  std::map<std::string, std::string, std::less<>> replacing;
  each(sections, [&](const std::string& key, const std::string& text) { replacing[key] = text; });
  std::string out;
  each(profile, [&](const std::string& key, const std::string& text) {
    const auto found = replacing.find(key);
    out += found == replacing.end() ? text : found->second;
    if (found != replacing.end()) replacing.erase(found);
  });
  for (const auto& [key, text] : replacing) out += text;
  return out;
}

std::string CurvesYaml(const calibration::CurveFile& file) {
  Writer writer;
  writer.Line(0, "# Made by 'stepcast calibrate import atlas'. Format: docs/formats.md.");
  for (const auto& [key, text] : {std::pair<std::string_view, std::string_view>("name", file.name),
                                  {"source", file.source},
                                  {"machine", file.machine},
                                  {"topology", file.topology}}) {
    writer.Entry(0, "{}: {}", key, YamlQuoted(text));
  }
  writer.Entry(0, "nccl: \"{}.{}\"", file.nccl.major, file.nccl.minor);
  writer.Entry(0, "rule: {}", YamlQuoted(file.rule));
  writer.Entry(0, "inside: {}", file.nvlink ? "nvlink" : "pcie");
  if (file.inside != Bandwidth()) {
    writer.Entry(0, "inside_bandwidth: {} GB/s", file.inside.gigabytes_per_second());
  }
  writer.Line(0, "curves:");
  const auto points = [](const std::vector<calibration::TimePoint>& some) {
    std::vector<std::string> pairs;
    for (const auto& [size, time] : some) {
      pairs.push_back(fmt::format("[{}, {}]", ExactBytes(size), ExactTime(time)));
    }
    return fmt::format("[{}]", fmt::join(pairs, ", "));
  };
  for (const calibration::CollectiveCurve& curve : file.curves) {
    writer.Entry(1, "- {{collective: {}, ranks: {}, nodes: {}, fit: {}}}", Name(curve.collective),
                 curve.ranks, curve.nodes, points(curve.fit));
  }
  return writer.Take();
}

std::string RatesYaml(const Rates& rates) {
  Writer writer;
  for (const std::string& comment : rates.comments) writer.Entry(0, "# {}", comment);
  writer.Entry(0, "name: {}", YamlQuoted(rates.name));
  writer.Entry(0, "source: {}", YamlQuoted(rates.source));
  WriteGemm(rates.costs, 0, writer);
  WriteAttention(rates.costs, 0, writer);
  return writer.Take();
}

}  // namespace stepcast::report
