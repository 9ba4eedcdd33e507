#include "src/validate/collectives.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/cost/nccl_price.h"
#include "src/cost/nccl_setting.h"
#include "src/scenario/curve_file.h"
#include "src/scenario/load.h"
#include "src/validate/published.h"

namespace stepcast::validate {
namespace {

using calibration::CollectiveCurve;
using calibration::CurveFile;

constexpr Bytes kLeast = KiB(32);
constexpr Bytes kMost = GiB(16);

Result<std::vector<std::shared_ptr<const CurveFile>>> LoadAllCurves() {
  const auto paths = DataFiles("calibration/collectives", "published collectives");
  if (!paths) return tl::unexpected(paths.error());
  std::vector<std::shared_ptr<const CurveFile>> files;
  Diagnostics diagnostics;
  for (const std::string& path : *paths) {
    auto file = scenario::LoadCurves(path);
    if (file) {
      files.push_back(std::make_shared<const CurveFile>(*std::move(file)));
    } else {
      diagnostics.insert(diagnostics.end(), file.error().begin(), file.error().end());
    }
  }
  if (!diagnostics.empty()) return tl::unexpected(std::move(diagnostics));
  return files;
}

// A scenario with only the cluster on which a curve was measured.
Result<scenario::Scenario> ScenarioOf(const CurveFile& file, const CollectiveCurve& curve,
                                      scenario::InputCache& cache) {
  std::string communication;
  if (!curve.algorithm.empty()) {
    // NCCL's names have no underscores.
    std::string name = curve.algorithm;
    std::erase(name, '_');
    communication = fmt::format("communication: {{nccl_algo: \"{}\"}}\n", name);
  }
  const std::string text = fmt::format(
      "stepcast: 1\n"
      "model:\n"
      "  kind: layers\n"
      "  layers:\n"
      "    - {{name: none, parameters: [1], forward: 1 us, backward: 1 us, activation: 1 B}}\n"
      "  optimizer_step: 1 us\n"
      "cluster: {{topology: {}, nodes: {}}}\n"
      "software: {{nccl: \"{}.{}\"}}\n{}"
      "training: {{sequence_length: 1, micro_batch_size: 1, gradient_accumulation: 1,\n"
      "           precision: bf16, optimizer: sgd}}\n"
      "data_parallel: {{zero_stage: 0, framework: reference}}\n",
      file.topology, curve.nodes, file.nccl.major, file.nccl.minor, communication);
  return scenario::LoadText(text, file.name, {}, cache);
}

// The first ranks of each node.
std::vector<int> RanksOf(const CollectiveCurve& curve, int gpus_per_node) {
  std::vector<int> ranks;
  const int local = curve.ranks / curve.nodes;
  for (int node = 0; node < curve.nodes; ++node) {
    for (int i = 0; i < local; ++i) ranks.push_back(node * gpus_per_node + i);
  }
  return ranks;
}

class Comparer {
 public:
  explicit Comparer(CollectiveAccuracy& accuracy) : accuracy_(accuracy) {}

  // `own`: forecasts read the fit points of the file, with priority over those of the profile.
  std::optional<Diagnostics> Add(const std::shared_ptr<const CurveFile>& file, bool own) {
    accuracy_.sources.push_back(
        {file->name, file->source, file->machine, file->rule, file->not_counted});
    for (const CollectiveCurve& curve : file->curves) {
      const auto scenario = ScenarioOf(*file, curve, cache_);
      if (!scenario) return scenario.error();
      auto setting = cost::NcclSettingOf(*scenario);
      if (!setting) {
        return Diagnostics{{"calibration.implausible", curve.location,
                            "stepcast does not model NCCL for the topology of the curve",
                            "use a topology with nodes and CUDA devices"}};
      }
      if (own) {
        std::erase_if(setting->curves,
                      [&](const auto& other) { return other->name == file->name; });
        setting->curves.insert(setting->curves.begin(), file);
      }
      cost::NcclPricer pricer(*setting);
      if (auto wrong = AddCurve(curve, *scenario, pricer)) return wrong;
    }
    return std::nullopt;
  }

 private:
  std::optional<Diagnostics> AddCurve(const CollectiveCurve& curve,
                                      const scenario::Scenario& scenario,
                                      cost::NcclPricer& pricer) {
    const int gpus = scenario.cluster->gpus_per_node();
    if (curve.ranks / curve.nodes > gpus) {
      return Diagnostics{{"calibration.implausible", curve.location,
                          fmt::format("a node of the topology has {} GPUs, but the curve needs {}",
                                      gpus, curve.ranks / curve.nodes),
                          "use another topology"}};
    }
    const std::vector<int> ranks = RanksOf(curve, gpus);
    const topology::CommunicationPath path = scenario.cluster->PathOf(ranks);
    const cost::GroupShape shape = cost::ShapeOf(ranks, gpus);
    const auto add = [&](const std::vector<calibration::TimePoint>& points, Role role) {
      for (const auto& [size, time] : points) {
        const auto price = pricer.Price({curve.collective, size, path, shape});
        const auto law = pricer.PriceByLaw({curve.collective, size, path, shape});
        if (!price || !law) return false;
        CollectivePoint point{.source = accuracy_.sources.size() - 1,
                              .collective = curve.collective,
                              .ranks = curve.ranks,
                              .nodes = curve.nodes,
                              .nvlink = path.intra_is_nvlink,
                              .forced = curve.algorithm,
                              .size = size,
                              .role = role,
                              .measured = time,
                              .forecast = price->demand.uncontended(),
                              .by_law = law->demand.uncontended(),
                              .algorithm = price->algorithm,
                              .protocol = price->protocol,
                              .channels = price->channels,
                              .provenance = price->demand.provenance,
                              .documented_algorithm = {},
                              .documented_protocol = {}};
        for (const calibration::DocumentedChoice& choice : curve.documented) {
          if (size < choice.from || size > choice.to) continue;
          point.documented_algorithm = choice.algorithm;
          point.documented_protocol = choice.protocol;
        }
        accuracy_.points.push_back(std::move(point));
      }
      return true;
    };
    if (add(curve.fit, Role::kFit) && add(curve.held_back, Role::kHeldBack) &&
        add(curve.uncertain, Role::kUncertain)) {
      return std::nullopt;
    }
    return Diagnostics{
        {"cost.no-algorithm", curve.location,
         fmt::format("NCCL cannot run the collective of the curve with the algorithm {}",
                     curve.algorithm),
         "correct or remove the key 'algorithm' of the curve"}};
  }

  CollectiveAccuracy& accuracy_;
  scenario::InputCache cache_;
};

}  // namespace

SizeBand BandOf(Bytes size) {
  if (size < kLeast) return SizeBand::kTiny;
  if (size < MiB(1)) return SizeBand::kSmall;
  return size <= MiB(64) ? SizeBand::kMedium : SizeBand::kLarge;
}

ErrorSummary Summarise(std::vector<double> errors) {
  ErrorSummary summary;
  if (errors.empty()) return summary;
  summary.points = errors.size();
  summary.bias =
      std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  // The smallest error that this fraction of the points does not exceed.
  const auto quantile = [&](double part) {
    const double rank = std::ceil(part * static_cast<double>(errors.size()));
    return errors[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  summary.median = quantile(0.5);
  summary.p90 = quantile(0.9);
  return summary;
}

namespace {

ErrorSummary TotalOf(const CollectiveAccuracy& accuracy, Role role,
                     double (CollectivePoint::*error)() const) {
  std::vector<double> errors;
  for (const CollectivePoint& point : accuracy.points) {
    if (point.role != role || !accuracy.sources[point.source].counts()) continue;
    if (point.size < kLeast || point.size > kMost) continue;
    errors.push_back((point.*error)());
  }
  return Summarise(std::move(errors));
}

}  // namespace

ErrorSummary CollectiveAccuracy::Total(Role role) const {
  return TotalOf(*this, role, &CollectivePoint::error);
}
ErrorSummary CollectiveAccuracy::TotalByLaw(Role role) const {
  return TotalOf(*this, role, &CollectivePoint::law_error);
}

std::size_t CollectiveAccuracy::documented() const {
  return static_cast<std::size_t>(
      std::count_if(points.begin(), points.end(),
                    [](const CollectivePoint& point) { return point.documented(); }));
}
std::size_t CollectiveAccuracy::as_documented() const {
  return static_cast<std::size_t>(std::count_if(
      points.begin(), points.end(),
      [](const CollectivePoint& point) { return point.documented() && point.as_documented(); }));
}

bool CollectiveAccuracy::MeetsTargets() const {
  const ErrorSummary held_back = Total(Role::kHeldBack);
  return held_back.median <= kMedianTarget && held_back.p90 <= kP90Target &&
         as_documented() == documented();
}

Result<CollectiveAccuracy> CompareCollectives() {
  const auto files = LoadAllCurves();
  if (!files) return tl::unexpected(files.error());
  CollectiveAccuracy accuracy;
  Comparer comparer(accuracy);
  for (const auto& file : *files) {
    if (auto wrong = comparer.Add(file, /*own=*/true)) return tl::unexpected(*std::move(wrong));
  }
  return accuracy;
}

Result<CollectiveAccuracy> CompareCurves(std::span<const std::shared_ptr<const CurveFile>> files,
                                         bool own) {
  CollectiveAccuracy accuracy;
  Comparer comparer(accuracy);
  for (const auto& file : files) {
    if (auto wrong = comparer.Add(file, own)) return tl::unexpected(*std::move(wrong));
  }
  return accuracy;
}

}  // namespace stepcast::validate
