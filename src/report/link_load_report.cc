#include "src/report/link_load_report.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/json_values.h"
#include "src/report/number_text.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using topology::LinkLoad;

double Slowest(const std::vector<LinkLoad>& loads) {
  double slowest = 0;
  for (const LinkLoad& load : loads) slowest = std::max(slowest, load.seconds());
  return slowest;
}

double ShareOf(const LinkLoad& load, double slowest) {
  return slowest > 0 ? load.seconds() / slowest : 0;
}

}  // namespace

std::string LinkLoadText(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size, const std::vector<LinkLoad>& loads) {
  // Equal loads may differ in the last bits: a thousandth of a byte tells them apart.
  constexpr double kThousandths = 1e3;
  using Key = std::tuple<topology::LinkKind, topology::DeviceKind, topology::DeviceKind, Bandwidth,
                         std::int64_t>;
  std::map<Key, std::size_t> lines;
  std::vector<std::pair<const LinkLoad*, int>> alike;
  double most = 0;
  for (const LinkLoad& load : loads) {
    most = std::max(most, load.bytes);
    const Key key{load.kind, load.from_kind, load.to_kind, load.bandwidth,
                  static_cast<std::int64_t>(load.bytes * kThousandths)};
    const auto [line, is_new] = lines.try_emplace(key, alike.size());
    if (is_new) alike.emplace_back(&load, 0);
    ++alike[line->second].second;
  }
  const double slowest = Slowest(loads);
  std::stable_sort(alike.begin(), alike.end(), [](const auto& a, const auto& b) {
    return a.first->seconds() > b.first->seconds();
  });
  const ByteUnit unit = UnitFor(most);
  std::string out = fmt::format(
      "{}\n\n{} of {} by rings over {} ranks on {}: what crosses each link in one direction\n"
      "(links of one node, since all are alike, and of the fabric)\n\n",
      name, Name(kind), FormatBytes(size), Grouped(cluster.devices()),
      cluster.nodes() == 1 ? "1 node" : fmt::format("{} nodes", Grouped(cluster.nodes())));
  Table table({{"kind", Align::kLeft},
               {"from", Align::kLeft},
               {"to", Align::kLeft},
               {"links"},
               {"bandwidth"},
               {fmt::format("{} a link", unit.name)},
               {"ms alone"},
               {"% of the slowest"}});
  for (const auto& [load, count] : alike) {
    constexpr double kMilliseconds = 1e3;
    constexpr double kPercent = 100;
    table.AddRow({std::string(Name(load->kind)), std::string(Name(load->from_kind)),
                  std::string(Name(load->to_kind)), Grouped(count),
                  FormatBandwidth(load->bandwidth), In(unit, load->bytes),
                  Decimal(load->seconds() * kMilliseconds, 3),
                  Decimal(ShareOf(*load, slowest) * kPercent, 1)});
  }
  return out + table.ToString();
}

std::string LinkLoadJson(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size, const std::vector<LinkLoad>& loads) {
  const double slowest = Slowest(loads);
  Json links = Json::array();
  for (const LinkLoad& load : loads) {
    links.push_back(Json{{"from", load.from},
                         {"to", load.to},
                         {"kind", Name(load.kind)},
                         {"count", load.count},
                         {"bandwidth_bytes_per_s", load.bandwidth.bytes_per_second()},
                         {"bytes", JsonNumber(load.bytes)},
                         {"time_s", load.seconds()},
                         {"share_of_slowest", ShareOf(load, slowest)}});
  }
  return Text(Json{{"stepcast", 1},
                   {"topology", name},
                   {"op", Name(kind)},
                   {"algorithm", "ring"},
                   {"size_bytes", size.count()},
                   {"ranks", cluster.devices()},
                   {"nodes", cluster.nodes()},
                   {"links", std::move(links)}});
}

}  // namespace stepcast::report
