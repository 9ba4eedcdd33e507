#include "src/scenario/curve_file.h"

#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"

namespace stepcast::scenario {
std::optional<Transport> ReadTransport(MappingReader& reader, Need need) {
  using enum Transport;
  return reader.ReadWord<Transport>("transport", need,
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

std::string ReadAlgorithm(MappingReader& reader, Need need) {
  return std::string(reader
                         .ReadWord<std::string_view>("algorithm", need,
                                                     {{"ring", "ring"},
                                                      {"tree", "tree"},
                                                      {"nvls", "nvls"},
                                                      {"nvls_tree", "nvls_tree"},
                                                      {"collnet_direct", "collnet_direct"},
                                                      {"collnet_chain", "collnet_chain"},
                                                      {"pat", "pat"}})
                         .value_or(""));
}

std::vector<calibration::DocumentedChoice> ReadDocumented(MappingReader& reader,
                                                          Diagnostics& diagnostics) {
  std::vector<calibration::DocumentedChoice> choices;
  const auto entries = reader.ReadSequence("documented", Need::kOptional);
  if (!entries) return choices;
  for (const Node& entry : *entries) {
    MappingReader fields(entry, diagnostics);
    calibration::DocumentedChoice choice;
    choice.from = fields.ReadBytes("from", Need::kRequired, Zero::kAllowed).value_or(Bytes());
    choice.to = fields.ReadBytes("to", Need::kRequired, Zero::kAllowed).value_or(Bytes());
    choice.algorithm = ReadAlgorithm(fields, Need::kRequired);
    choice.protocol = std::string(
        fields
            .ReadWord<std::string_view>("protocol", Need::kOptional,
                                        {{"LL", "LL"}, {"LL128", "LL128"}, {"Simple", "Simple"}})
            .value_or(""));
    fields.Finish();
    choices.push_back(std::move(choice));
  }
  return choices;
}

CollectiveCurve ReadCurve(const Node& node, Diagnostics& diagnostics) {
  CollectiveCurve curve;
  curve.location = node.location();
  MappingReader reader(node, diagnostics);
  curve.collective = ReadCollectiveKind(reader).value_or(CollectiveKind::kAllReduce);
  curve.ranks = static_cast<int>(
      reader.ReadInteger("ranks", Need::kRequired, {2, kRanksOfGroup.most}).value_or(2));
  curve.nodes =
      static_cast<int>(reader.ReadInteger("nodes", Need::kRequired, kRanksOfGroup).value_or(1));
  if (curve.ranks % curve.nodes != 0) {
    reader.Report(
        "nodes", "calibration.implausible",
        fmt::format("the number of ranks, {}, is not divisible by the number of nodes, {}",
                    curve.ranks, curve.nodes),
        "remove measurements in which nodes have different numbers of ranks");
  }
  curve.algorithm = ReadAlgorithm(reader, Need::kOptional);
  curve.documented = ReadDocumented(reader, diagnostics);
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

std::optional<CollectiveKind> ReadCollectiveKind(MappingReader& reader) {
  using enum CollectiveKind;
  return reader.ReadNamed("collective", Need::kRequired,
                          {kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kScatter,
                           kGather, kAllToAll, kSendRecv});
}

std::optional<calibration::CurveFile> ReadCurves(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  calibration::CurveFile file;
  const auto text = [&](std::string_view key, Need need) {
    return reader.ReadText(key, need).value_or("");
  };
  file.name = text("name", Need::kRequired);
  file.source = text("source", Need::kRequired);
  file.machine = text("machine", Need::kRequired);
  file.topology = text("topology", Need::kRequired);
  const auto version = reader.ReadVersion("nccl", Need::kRequired, "2.27");
  if (version) file.nccl = *version;
  file.rule = text("rule", Need::kRequired);
  file.not_counted = text("not_counted", Need::kOptional);
  file.nvlink =
      reader.ReadWord<bool>("inside", Need::kRequired, {{"nvlink", true}, {"pcie", false}})
          .value_or(true);
  file.inside =
      reader.ReadBandwidth("inside_bandwidth", file.nvlink ? Need::kRequired : Need::kOptional)
          .value_or(Bandwidth());
  file.network = reader.ReadBandwidth("network", Need::kOptional).value_or(Bandwidth());
  const bool joined = reader.Has("network");
  file.transport =
      ReadTransport(reader, joined ? Need::kRequired : Need::kOptional).value_or(file.transport);
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
