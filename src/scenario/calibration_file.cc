#include "src/scenario/calibration_file.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/calibration/learned_runs.h"
#include "src/calibration/plausible.h"
#include "src/plan/framework.h"
#include "src/scenario/curve_file.h"
#include "src/scenario/data_root.h"
#include "src/scenario/document.h"
#include "src/scenario/source_names.h"

namespace stepcast::scenario {
namespace {

constexpr Time kLongest = Milliseconds(100);

Time ReadCost(MappingReader& times, std::string_view key, Diagnostics& diagnostics) {
  const auto node = times.ReadNode(key, Need::kRequired, "a time, such as 20 us");
  if (!node) return Time();
  const auto time = ReadTime(*node, Zero::kAllowed, diagnostics);
  if (time && *time > kLongest) {
    diagnostics.push_back(
        {"calibration.implausible", node->location(),
         "the host time to launch a kernel must be at most 100 ms: " + node->Described(),
         "check the unit"});
  }
  return time.value_or(Time());
}

}  // namespace

std::map<std::string, Dispatch, std::less<>> ReadDispatchCosts(MappingReader& reader) {
  std::map<std::string, Dispatch, std::less<>> costs;
  reader.Section("dispatch", Need::kRequired, [&](MappingReader& by_framework) {
    for (const plan::FrameworkTraits& traits : plan::kFrameworkTraits) {
      if (traits.textbook) continue;
      by_framework.Section(traits.name, Need::kOptional, [&](MappingReader& times) {
        costs[traits.name] = {.module = ReadCost(times, "module", reader.diagnostics()),
                              .autograd = ReadCost(times, "autograd", reader.diagnostics())};
      });
    }
  });
  return costs;
}

std::optional<calibration::FrameworkCosts> ReadFrameworkCosts(const Node& node,
                                                              Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  calibration::FrameworkCosts costs;
  reader.Required("name", costs.name);
  reader.Required("host", costs.host);
  costs.dispatch = ReadDispatchCosts(reader);
  reader.Finish();
  if (reader.failed()) return std::nullopt;
  return costs;
}

Result<calibration::FrameworkCosts> LoadFrameworkCosts(const std::string& path) {
  return LoadWith(path, ReadFrameworkCosts);
}

namespace {

constexpr IntegerRange kGroupSize{1, 10'000'000};

std::pair<Time, Time> ReadQuantiles(const Node& node, Diagnostics& diagnostics) {
  const std::vector<Node> row = ItemsOfRow(node, 2, "two times", "[12.9 ms, 13.4 ms]", diagnostics);
  if (row.empty()) return {Picoseconds(1), Picoseconds(1)};
  const auto low = ReadTime(row[0], Zero::kAllowed, diagnostics);
  const auto high = ReadTime(row[1], Zero::kAllowed, diagnostics);
  if (!low || !high) return {Picoseconds(1), Picoseconds(1)};
  return {*low, *high};
}

// An entry of `collectives`, at `index`: measured times by size. Unreadable values are replaced by
// plausible ones so that the rest can be checked; the diagnostics prevent use of the profile.
calibration::CollectiveTable ReadCollectiveTable(const Node& node, int index,
                                                 Diagnostics& diagnostics) {
  calibration::CollectiveTable table;
  table.location = node.location();
  MappingReader reader(node, diagnostics);
  ReadCollectiveKind(reader, table.collective);
  reader.Required("ranks", table.ranks, kGroupSize);
  reader.Required("nodes", table.nodes, kGroupSize);
  if (reader.failed()) {
    table.collective = CollectiveKind::kAllReduce;
    table.ranks = static_cast<int>(kGroupSize.most) + 1 + index;  // no other table's key
    table.nodes = 1;
  }
  if (const auto points = reader.ReadSequence("points", Need::kRequired)) {
    ReadPoints(*points, table.points, diagnostics);
  }
  reader.List("quantiles", Need::kOptional, table.quantiles, ReadQuantiles);
  reader.Finish();
  return table;
}

// The section `collective_law`: the modeled time of unmeasured collectives.
calibration::CollectiveLaw ReadCollectiveLaw(MappingReader& section) {
  constexpr DecimalRange kStretch = {0, 1000};
  constexpr DecimalRange kEfficiency = {0.01, 2};
  calibration::CollectiveLaw law;
  section.Required("launch", law.launch);
  for (calibration::WireClass wire : calibration::kWireClasses) {
    section.Section(Name(wire), Need::kRequired, [&](MappingReader& figures) {
      calibration::CollectiveLaw::Ramp& ramp = law.ramp[static_cast<std::size_t>(wire)];
      Bytes half = Bytes(1);
      figures.Required("stretch", ramp.stretch, kStretch);
      figures.Required("half", half, Zero::kRefused);
      figures.Required("efficiency", ramp.efficiency, kEfficiency);
      ramp.half = static_cast<double>(half.count());
    });
  }
  return law;
}

using calibration::LearnedRun;
using calibration::LearnedRuns;
using calibration::RunKind;
using calibration::RunSize;

LearnedRun ReadRun(const Node& node, Diagnostics& diagnostics) {
  constexpr DecimalRange kRatio = {0.01, 100};
  constexpr std::int64_t kMostRepeats = 1'000'000;
  MappingReader reader(node, diagnostics);
  LearnedRun run;
  run.log_ratio =
      std::log(reader.ReadDecimal("measured_over_forecast", Need::kRequired, kRatio).value_or(1));
  reader.Optional("repeats", run.repeats, {1, kMostRepeats});
  for (std::size_t i = 0; i < calibration::kRunSizes; ++i) {
    const auto size = static_cast<RunSize>(i);
    const bool may_miss = MayBeUnknown(size);
    reader.Read(Name(size), may_miss ? Need::kOptional : Need::kRequired, run.settings.sizes[i],
                {.least = may_miss ? 0 : 1});
  }
  for (std::size_t i = 0; i < calibration::kRunKinds; ++i) {
    const auto kind = static_cast<RunKind>(i);
    reader.Read(Name(kind), MayBeUnknown(kind) ? Need::kOptional : Need::kRequired,
                run.settings.kinds[i]);
  }
  reader.Finish();
  return run;
}

// The section `runs` of a calibration profile (docs/formats.md, "Learned runs"). Errors other than
// those of documents: calibration.runs (none, too many, or two with the same settings).
std::shared_ptr<const LearnedRuns> ReadLearnedRuns(MappingReader& section) {
  Diagnostics& diagnostics = section.diagnostics();
  section.ReadText("source", Need::kOptional);
  std::vector<LearnedRun> runs;
  if (const auto cases = section.ReadSequence("cases", Need::kRequired)) {
    std::set<calibration::RunSettings> known;
    for (const Node& node : *cases) {
      runs.push_back(ReadRun(node, diagnostics));
      if (section.failed() || known.insert(runs.back().settings).second) continue;
      diagnostics.push_back({"calibration.runs", node.location(), "two runs have the same settings",
                             "write one entry for both runs, with the key 'repeats'"});
    }
    if (cases->empty() || cases->size() > LearnedRuns::kMostRuns) {
      section.Report("cases", "calibration.runs",
                     fmt::format("a profile must have 1 to {} runs, not {}", LearnedRuns::kMostRuns,
                                 cases->size()),
                     "remove 'runs', or keep only the runs that are most similar to your training");
    }
  }
  if (section.failed()) return nullptr;
  return std::make_shared<const LearnedRuns>(std::move(runs));
}

using calibration::Calibration;
using calibration::Neighbour;

// The file's name of a key that plausible.h names without nesting.
std::string FieldOf(std::string field) {
  for (std::string_view algorithm : {"ring", "tree"}) {
    const std::string prefix = fmt::format("links.{}_", algorithm);
    if (field.starts_with(prefix)) {
      return fmt::format("links.{}.{}", algorithm, field.substr(prefix.size()));
    }
  }
  return field;
}

// `gpu`: a GPU type, or a list of them.
std::vector<std::string> ReadGpus(MappingReader& reader, Diagnostics& diagnostics) {
  std::vector<std::string> gpus;
  const auto node = reader.ReadNode("gpu", Need::kOptional, "a GPU type, or a list of GPU types");
  if (!node) return gpus;
  const bool list = node->kind() == NodeKind::kSequence;
  for (const Node& item : list ? node->items() : std::vector<Node>{*node}) {
    if (auto gpu = ReadText(item, diagnostics)) gpus.push_back(*std::move(gpu));
  }
  if (list && node->items().empty()) {
    reader.Report("gpu", "calibration.no-gpu", "'gpu' needs at least one GPU type",
                  "write for example gpu: h100-sxm, or remove the key if the type is unknown");
  }
  return gpus;
}

std::vector<std::pair<std::string, std::string>> ReadProvenance(MappingReader& reader,
                                                                Diagnostics& diagnostics) {
  std::vector<std::pair<std::string, std::string>> provenance;
  const auto section = reader.ReadMapping("provenance", Need::kRequired);
  if (!section || section->node().kind() != NodeKind::kMapping) return provenance;
  for (const auto& [key, value] : section->node().entries()) {
    if (auto text = ReadText(value, diagnostics)) provenance.emplace_back(key, std::move(*text));
  }
  if (section->node().entries().empty()) {
    reader.Report("provenance", "calibration.no-provenance",
                  "'provenance' must not be empty: a profile must state its origin",
                  "write the machine, the software, the date and the method of the measurements");
  }
  return provenance;
}

calibration::CopyCurves ReadCopies(MappingReader& section) {
  calibration::CopyCurves copies;
  copies.host_to_device = ReadCurve(section, "host_to_device");
  copies.device_to_host = ReadCurve(section, "device_to_host");
  copies.device_to_device = ReadCurve(section, "device_to_device");
  section.Optional("both_ways", copies.both_ways);
  return copies;
}

calibration::Interference ReadInterference(const Node& node, Diagnostics& diagnostics) {
  calibration::Interference interference;
  MappingReader reader(node, diagnostics);
  reader.Required("kernel", interference.kernel, {Neighbour::kGemm, Neighbour::kMemoryBound});
  ReadCollectiveKind(reader, interference.collective);
  reader.Required("kernel_slowdown", interference.kernel_slowdown);
  reader.Required("collective_slowdown", interference.collective_slowdown);
  reader.Finish();
  return interference;
}

std::vector<calibration::Residual> ReadResiduals(MappingReader& section) {
  std::vector<calibration::Residual> residuals;
  for (const YamlNode::Entry& part : section.node().tree()->entries) {
    section.Section(part.key, Need::kOptional, [&](MappingReader& entry) {
      calibration::Residual& residual =
          residuals.emplace_back(calibration::Residual{.of = part.key});
      entry.Required("spread", residual.spread);
      entry.Required("interpolation", residual.interpolation);
    });
  }
  return residuals;
}

calibration::LinkCosts ReadLinks(MappingReader& section) {
  calibration::LinkCosts costs;
  section.Required("nvlink_efficiency", costs.nvlink_efficiency);
  section.Required("pcie_efficiency", costs.pcie_efficiency);
  section.Required("network_efficiency", costs.network_efficiency);
  section.Optional("jitter", costs.jitter);
  section.Section("ring", Need::kRequired, [&](MappingReader& ring) {
    ring.Required("base", costs.ring_base);
    ring.Required("nvlink_hop", costs.ring_nvlink_hop);
    ring.Required("pcie_hop", costs.ring_pcie_hop);
    ring.Required("network_hop", costs.ring_network_hop);
  });
  section.Section("tree", Need::kRequired, [&](MappingReader& tree) {
    tree.Required("base", costs.tree_base);
    tree.Required("nvlink_hop", costs.tree_nvlink_hop);
    tree.Required("pcie_hop", costs.tree_pcie_hop);
    tree.Required("network_hop", costs.tree_network_hop);
  });
  return costs;
}

}  // namespace

std::optional<std::string> FindNamed(const Node& node, Diagnostics& diagnostics) {
  const auto name = ReadText(node, diagnostics);
  if (!name) return std::nullopt;
  auto path = FindInput(*name, FolderOf(node.file()));
  if (!path) {
    diagnostics.push_back({"file.not-found", node.location(),
                           fmt::format("{} refers to a file that does not exist: {}",
                                       Quoted(node.path()), Quoted(*name)),
                           PlacesTried(*name, FolderOf(node.file()))});
  }
  return path;
}

namespace {

// Shares the contents of a file; null after a Diagnostic.
template <typename T>
std::shared_ptr<const T> Shared(Result<T> read, Diagnostics& diagnostics) {
  if (read) return std::make_shared<const T>(*std::move(read));
  diagnostics.insert(diagnostics.end(), read.error().begin(), read.error().end());
  return nullptr;
}

std::vector<std::shared_ptr<const calibration::CurveFile>> ReadCurveFiles(
    MappingReader& reader, Diagnostics& diagnostics) {
  std::vector<std::shared_ptr<const calibration::CurveFile>> files;
  const auto names = reader.ReadSequence("curves", Need::kOptional);
  for (const Node& node : names.value_or(std::vector<Node>())) {
    const auto path = FindNamed(node, diagnostics);
    if (!path) continue;
    if (auto file = Shared(LoadCurves(*path), diagnostics)) files.push_back(std::move(file));
  }
  return files;
}

std::shared_ptr<const calibration::FrameworkCosts> ReadFrameworks(MappingReader& reader,
                                                                  Diagnostics& diagnostics) {
  const auto node = reader.ReadNode("frameworks", Need::kOptional, "a path");
  if (!node) return nullptr;
  const auto path = FindNamed(*node, diagnostics);
  return path ? Shared(LoadFrameworkCosts(*path), diagnostics) : nullptr;
}

calibration::MemoryCosts ReadMemory(MappingReader& section) {
  calibration::MemoryCosts costs;
  section.Required("context", costs.context);
  section.Required("first_communicator", costs.first_communicator);
  section.Required("next_communicator", costs.next_communicator);
  section.Required("gemm_workspace", costs.gemm_workspace);
  return costs;
}

// Reports values that were read but cannot be true. A value that could not be read was already
// reported and is zero; a missing one has no node.
void ReportFaults(const Calibration& calibration, const Node& node, Diagnostics& diagnostics) {
  const std::size_t unreadable = diagnostics.size();
  const auto reported = [&](const Location& location) {
    return std::any_of(diagnostics.begin(), diagnostics.begin() + unreadable,
                       [&](const Diagnostic& diagnostic) {
                         return diagnostic.location.line == location.line &&
                                diagnostic.location.column == location.column;
                       });
  };
  for (calibration::Fault& fault : calibration::Check(calibration)) {
    const auto [at, there] = Follow(node, FieldOf(std::move(fault.field)));
    if (!there || reported(at.location())) continue;
    diagnostics.push_back({"calibration.implausible", at.location(), std::move(fault.message),
                           std::move(fault.hint)});
  }
}

}  // namespace

std::optional<Calibration> ReadCalibration(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  Calibration calibration;
  calibration.location = node.location();
  reader.Required("name", calibration.name);
  calibration.gpus = ReadGpus(reader, diagnostics);
  calibration.provenance = ReadProvenance(reader, diagnostics);
  reader.Section("kernels", Need::kOptional, [&](MappingReader& section) {
    calibration.kernel_releases = ReadKernelCosts(section, calibration.kernels.emplace());
  });
  reader.Section("host", Need::kOptional, calibration.dispatch, ReadDispatchCosts);
  calibration.frameworks = ReadFrameworks(reader, diagnostics);
  reader.Section("links", Need::kOptional, calibration.links, ReadLinks);
  reader.Section("memory", Need::kOptional, calibration.memory, ReadMemory);
  reader.List("collectives", Need::kOptional, calibration.collectives,
              [&](const Node& table, Diagnostics& mistakes) {
                const int index = static_cast<int>(calibration.collectives.size());
                return ReadCollectiveTable(table, index, mistakes);
              });
  calibration.curves = ReadCurveFiles(reader, diagnostics);
  reader.Section("collective_law", Need::kOptional, calibration.collective_law, ReadCollectiveLaw);
  reader.Section("copies", Need::kOptional, calibration.copies, ReadCopies);
  reader.List("interference", Need::kOptional, calibration.interference, ReadInterference);
  reader.Section("residuals", Need::kOptional, calibration.residuals, ReadResiduals);
  reader.Section("runs", Need::kOptional, calibration.runs, ReadLearnedRuns);
  reader.Finish();
  ReportFaults(calibration, node, diagnostics);
  if (reader.failed()) return std::nullopt;
  return calibration;
}

Result<Calibration> LoadCalibration(const std::string& path) {
  return LoadWith(path, ReadCalibration);
}

}  // namespace stepcast::scenario
