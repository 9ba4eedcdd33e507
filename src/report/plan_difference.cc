#include "src/report/plan_difference.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "src/report/json_values.h"

namespace stepcast::report {
namespace {

using scenario::Resolved;
using Settings = std::vector<std::pair<std::string, std::string>>;

// Every value that is no mapping, by its dotted path. Sequences, such as layer lists, are one
// value.
void Flatten(const Resolved& tree, const std::string& path, Settings& settings) {
  if (const auto* mapping = std::get_if<Resolved::Mapping>(&tree.value)) {
    for (const auto& [key, value] : *mapping) {
      Flatten(value, path.empty() ? key : fmt::format("{}.{}", path, key), settings);
    }
  } else if (const auto* text = std::get_if<std::string>(&tree.value)) {
    settings.emplace_back(path, *text);
  } else {
    settings.emplace_back(path, ToJson(tree).dump());
  }
}

const std::string* Find(const Settings& settings, const std::string& key) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const auto& setting) { return setting.first == key; });
  return found == settings.end() ? nullptr : &found->second;
}

const forecast::CollectiveSummary* Find(const forecast::Forecast& forecast,
                                        const forecast::CollectiveSummary& like) {
  const auto found = std::find_if(
      forecast.collectives.begin(), forecast.collectives.end(), [&](const auto& candidate) {
        return candidate.collective == like.collective && candidate.group == like.group;
      });
  return found == forecast.collectives.end() ? nullptr : &*found;
}

}  // namespace

std::vector<SettingPair> DifferentSettings(const Resolved& a, const Resolved& b) {
  Settings of_a, of_b;
  Flatten(a, "", of_a);
  Flatten(b, "", of_b);
  std::vector<SettingPair> pairs;
  for (const auto& [key, value] : of_a) {
    if (key == "name") continue;  // which stand above
    const std::string* other = Find(of_b, key);
    if (other == nullptr || *other != value) {
      pairs.push_back({key, value, other == nullptr ? "" : *other});
    }
  }
  for (const auto& [key, value] : of_b) {
    if (Find(of_a, key) == nullptr) pairs.push_back({key, "", value});
  }
  return pairs;
}

std::vector<CollectivePair> PairCollectives(const forecast::Forecast& a,
                                            const forecast::Forecast& b) {
  std::vector<CollectivePair> pairs;
  for (const forecast::CollectiveSummary& summary : a.collectives) {
    pairs.push_back({&summary, Find(b, summary)});
  }
  for (const forecast::CollectiveSummary& summary : b.collectives) {
    if (Find(a, summary) == nullptr) pairs.push_back({nullptr, &summary});
  }
  return pairs;
}

}  // namespace stepcast::report
