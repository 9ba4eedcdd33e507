#include "src/scenario/curve_file.h"

#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"

namespace stepcast::scenario {
void ReadTransport(MappingReader& reader, Need need, Transport& transport) {
  using enum Transport;
  reader.Read("transport", need, transport,
              {{Name(kInfiniband), kInfiniband},
               {Name(kRoce), kRoce},
               {Name(kEfa), kEfa},
               {Name(kOmniPath), kOmniPath},
               {Name(kSlingshot), kSlingshot},
               {Name(kSockets), kSockets},
               {"tcp", kSockets}});  // of earlier releases
}

namespace {

using calibration::CollectiveCurve;
using calibration::TimePoint;

constexpr IntegerRange kRanksOfGroup{1, 10'000'000};

std::vector<TimePoint> ReadPoints(MappingReader& reader, std::string_view key,
                                  Diagnostics& diagnostics) {
  std::vector<TimePoint> points;
  const auto rows = reader.ReadSequence(key, Need::kOptional);
  if (!rows) return points;
  for (const Node& row : *rows) {
    const std::vector<Node> items = row.items();
    if (items.size() != 2) {
      diagnostics.push_back(
          {"calibration.bad-point", row.location(),
           fmt::format("{} needs a size and a time: {}", row.path(), row.Described()),
           "write [1 MiB, 46 us]"});
      continue;
    }
    const auto size = ReadBytes(items[0], Zero::kRefused, diagnostics);
    const auto time = ReadTime(items[1], Zero::kRefused, diagnostics);
    if (!size || !time) continue;
    if (!points.empty() && *size <= points.back().first) {
      diagnostics.push_back({"calibration.implausible", items[0].location(),
                             fmt::format("sizes must ascend: {} after {}", FormatBytes(*size),
                                         FormatBytes(points.back().first)),
                             "sort the points by size and remove duplicates"});
      continue;
    }
    points.emplace_back(*size, *time);
  }
  return points;
}

Words<std::string_view> Algorithms() {
  return {"ring", "tree", "nvls", "nvls_tree", "collnet_direct", "collnet_chain", "pat"};
}

calibration::DocumentedChoice ReadDocumented(const Node& node, Diagnostics& diagnostics) {
  MappingReader fields(node, diagnostics);
  calibration::DocumentedChoice choice;
  fields.Required("from", choice.from);
  fields.Required("to", choice.to);
  fields.Required("algorithm", choice.algorithm, Algorithms());
  fields.Optional("protocol", choice.protocol, {"LL", "LL128", "Simple"});
  fields.Finish();
  return choice;
}

CollectiveCurve ReadCurve(const Node& node, Diagnostics& diagnostics) {
  CollectiveCurve curve;
  curve.location = node.location();
  MappingReader reader(node, diagnostics);
  ReadCollectiveKind(reader, curve.collective);
  reader.Required("ranks", curve.ranks, {2, kRanksOfGroup.most});
  reader.Required("nodes", curve.nodes, kRanksOfGroup);
  if (curve.ranks % curve.nodes != 0) {
    reader.Report(
        "nodes", "calibration.implausible",
        fmt::format("the number of ranks, {}, is not divisible by the number of nodes, {}",
                    curve.ranks, curve.nodes),
        "remove measurements in which nodes have different numbers of ranks");
  }
  reader.Optional("algorithm", curve.algorithm, Algorithms());
  reader.List("documented", Need::kOptional, curve.documented, ReadDocumented);
  curve.fit = ReadPoints(reader, "fit", diagnostics);
  curve.held_back = ReadPoints(reader, "held_back", diagnostics);
  curve.uncertain = ReadPoints(reader, "uncertain", diagnostics);
  if (!reader.failed() && curve.fit.empty() && curve.held_back.empty() && curve.uncertain.empty()) {
    reader.Report("fit", "calibration.no-points", "a curve needs at least one point",
                  "write fit: [[1 MiB, 46 us]]");
  }
  reader.Finish();
  return curve;
}

}  // namespace

void ReadCollectiveKind(MappingReader& reader, CollectiveKind& collective) {
  using enum CollectiveKind;
  reader.Required("collective", collective,
                  {kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kScatter, kGather,
                   kAllToAll, kSendRecv});
}

std::optional<calibration::CurveFile> ReadCurves(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  calibration::CurveFile file;
  reader.Required("name", file.name);
  reader.Required("source", file.source);
  reader.Required("machine", file.machine);
  reader.Required("topology", file.topology);
  reader.Required("nccl", file.nccl, "2.27");
  reader.Required("rule", file.rule);
  reader.Optional("not_counted", file.not_counted);
  reader.Required("inside", file.nvlink, {{"nvlink", true}, {"pcie", false}});
  reader.Read("inside_bandwidth", file.nvlink ? Need::kRequired : Need::kOptional, file.inside);
  reader.Optional("network", file.network);
  const bool joined = reader.Has("network");
  ReadTransport(reader, joined ? Need::kRequired : Need::kOptional, file.transport);
  if (const auto curves = reader.ReadSequence("curves", Need::kRequired)) {
    for (const Node& curve : *curves) {
      file.curves.push_back(ReadCurve(curve, diagnostics));
      if (file.curves.back().nodes > 1 && !reader.Has("network")) {
        diagnostics.push_back({"calibration.no-network", curve.location(),
                               "'network' is missing: a curve over several nodes "
                               "needs the bandwidth of their network",
                               "add the sum of the bandwidths of a node's network cards, for "
                               "example network: 400 GB/s"});
      }
    }
  }
  reader.Finish();
  if (reader.failed()) return std::nullopt;
  return file;
}

Result<calibration::CurveFile> LoadCurves(const std::string& path) {
  return LoadWith(path, ReadCurves);
}

}  // namespace stepcast::scenario
