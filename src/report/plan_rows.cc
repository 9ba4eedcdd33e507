#include "src/report/plan_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using scenario::Resolved;
using Settings = std::vector<std::pair<std::string, std::string>>;

// Every value by its dotted path, except mappings. A sequence, such as a layer list, is one value.
void Flatten(const Resolved& tree, const std::string& path, Settings& settings) {
  if (const auto* mapping = std::get_if<Resolved::Mapping>(&tree.value)) {
    for (const auto& [key, value] : *mapping) {
      Flatten(value, path.empty() ? key : fmt::format("{}.{}", path, key), settings);
    }
  } else if (const auto* text = std::get_if<std::string>(&tree.value)) {
    settings.emplace_back(path, *text);
  } else {
    settings.emplace_back(path, OneLine(ToJson(tree)));
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

using enum Align;

// The extra time of the ported plan over the best on its cluster, as a fraction. None if one of the
// two is not acceptable.
std::optional<double> Loss(const PlanReport& report) {
  const forecast::Forecast& ported = report.port->ported.forecast;
  if (report.best.empty() || !ported.memory.fits) return std::nullopt;
  return TokensPerSecond(report.best.front()) / ported.tokens_per_second - 1;
}

std::string LossText(const PlanReport& report) {
  const std::optional<double> loss = Loss(report);
  if (!loss) {
    return report.best.empty()
               ? "no plan in the search meets the goal on this cluster\n"
               : "on this cluster, the ported plan does not fit, but the best plan fits\n";
  }
  constexpr double kNothing = 0.0005;
  if (*loss < kNothing)
    return "no plan in the search is better on this cluster than the ported plan\n";
  return fmt::format(
      "the ported plan takes {} % longer per token than the best plan for this cluster\n",
      Decimal(kHundred * *loss, 1));
}

AnswerTable Sides(const PlanReport& report) {
  const PortAnswer& port = *report.port;
  const auto needed = [](const forecast::Forecast& forecast) {
    return forecast.memory.reserved + forecast.memory.outside;
  };
  const ByteUnit unit = UnitFor(std::max(needed(port.from.forecast), needed(port.ported.forecast)));
  AnswerTable table{{{"", "", kLeft},
                     {"", "cluster"},
                     {"GPUs", "gpus"},
                     {"step ms", "step_time_s"},
                     {"tokens/s", "tokens_per_s"},
                     {"tokens/s/GPU", "tokens_per_s_per_gpu"},
                     {fmt::format("needs {}", unit.name), "needed_bytes"},
                     {fmt::format("of {}", unit.name), "capacity_bytes"},
                     {"memory", "verdict", kLeft}}};
  for (const PortSide* side : {&port.from, &port.ported}) {
    const forecast::Forecast& forecast = side->forecast;
    table.Add({side == &port.from ? "original cluster" : "ported", side->cluster,
               forecast::TrainedStepOf(forecast).gpus, forecast.step_time,
               Fixed(forecast.tokens_per_second, 0), Fixed(forecast.tokens_per_second_per_gpu, 1),
               Amount(unit, needed(forecast)), Amount(unit, forecast.memory.capacity),
               Name(forecast.memory.verdict())});
  }
  if (report.best.empty()) return table;
  const PlanRow& best = report.best.front();
  table.Add({"best plan", "", best.facts.gpus, best.outcome.step_time,
             Fixed(TokensPerSecond(best), 0), Fixed(best.outcome.tokens_per_second_per_gpu, 1),
             Amount(unit, Needed(best.outcome)), Amount(unit, best.facts.capacity),
             Name(best.outcome.verdict)});
  return table;
}

AnswerTable Changes(const PortAnswer& port) {
  AnswerTable table{{{"setting that changes", "key", kLeft},
                     {"from", "from", kLeft},
                     {"to", "to", kLeft},
                     {"why", "why", kLeft}}};
  for (const PortChange& change : port.changes) {
    table.Add({change.key, WordOr(change.from), WordOr(change.to), change.why});
  }
  return table;
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

namespace {

// "llama3.1-8b" for "../models/llama3.1-8b.yaml".
std::string_view NameIn(std::string_view path) {
  path.remove_prefix(std::min(path.rfind('/') + 1, path.size()));
  if (path.ends_with(".yaml")) path.remove_suffix(std::string_view(".yaml").size());
  return path;
}

// Whether the two scenarios have the same under this key, which names a file.
bool HaveTheSame(std::string_view key, const scenario::Scenario& a, const scenario::Scenario& b) {
  if (key == "model") {
    return a.model->name == b.model->name &&
           a.model->all_parameter_count() == b.model->all_parameter_count() &&
           a.model->layers.size() == b.model->layers.size();
  }
  if (key == "cluster.topology") {
    return a.gpu.has_value() == b.gpu.has_value() && (!a.gpu || a.gpu->name == b.gpu->name) &&
           a.cluster->flat() == b.cluster->flat();
  }
  return key == "calibration" && a.calibration->name == b.calibration->name;
}

}  // namespace

std::vector<SettingPair> DifferentSettings(const scenario::Scenario& a,
                                           const scenario::Scenario& b) {
  std::vector<SettingPair> pairs = DifferentSettings(a.resolved, b.resolved);
  std::erase_if(pairs, [&](const SettingPair& pair) {
    return NameIn(pair.a) == NameIn(pair.b) && HaveTheSame(pair.key, a, b);
  });
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

using planner::Goal;
using planner::Verdict;

namespace {

// Why a plan with this memory is rejected; empty if it is not.
std::string LackText(const Goal& goal, const planner::PlanFacts& facts, Bytes needed, Bytes over,
                     const char* at_least) {
  const Bytes lacks = Lacks(goal, facts, over);
  if (lacks <= Bytes(0)) return "";
  if (over > needed - facts.capacity) {  // then host memory or drives lack more than the devices
    return fmt::format("lacks{} {} of host memory or drive space per node", at_least,
                       FormatBytes(over));
  }
  return fmt::format("lacks{} {} of device memory{}", at_least, FormatBytes(lacks),
                     HeadroomOf(goal, facts) > Bytes(0) ? ", including the headroom" : "");
}

}  // namespace

Bytes Lacks(const Goal& goal, const planner::PlanFacts& facts, Bytes over) {
  return over + HeadroomOf(goal, facts);
}

Bytes Needed(const planner::Outcome& outcome) { return outcome.reserved + outcome.outside; }

Shown ShownOf(const PlanRow& row) {
  if (!row.simulated) return {row.bound.step_time, row.bound.memory, row.bound.needed};
  return {row.outcome.step_time, row.outcome.memory, Needed(row.outcome)};
}

std::string RangeText(const PlanRow& row) {
  if (!row.range) return "-";
  return fmt::format("{} to {}", FormatTime(row.range->low), FormatTime(row.range->high));
}

std::string FitText(const planner::Outcome& outcome) {
  return Decimal(kHundred * (outcome.fits ? outcome.fit_probability : 0), 0);
}

Json RangeJson(const PlanRow& row) {
  Json range = Json::array();
  if (!row.range) return range;
  range.push_back(JsonSeconds(row.range->low));
  range.push_back(JsonSeconds(row.range->high));
  return range;
}

double Longer(const PlanRow& row, const PlanRow& than) {
  return TokensPerSecond(than) / TokensPerSecond(row) - 1;
}

std::string LongerText(const PlanRow& row, const PlanRow& than) {
  if (row.plan == than.plan && row.settings == than.settings) return "-";
  const double longer = Longer(row, than);
  return Signed(kHundred * longer, 1) + (std::abs(longer) < kTie ? " ~" : "");
}

std::string RecipeDifference(const plan::Plan& a, const plan::Plan& b) {
  const plan::Training &x = a.training, &y = b.training;
  std::vector<std::string> parts;
  const auto compare = [&](const char* key, const auto& of_a, const auto& of_b) {
    if (of_a != of_b) parts.push_back(fmt::format("{} {} ({})", key, of_a, of_b));
  };
  compare("compile", x.compile, y.compile);
  compare("loss", std::string_view(model::Name(x.loss)), model::Name(y.loss));
  compare("attention", std::string_view(model::Name(x.attention)), model::Name(y.attention));
  compare("parameter_dtype", std::string_view(Name(x.parameter_dtype)), Name(y.parameter_dtype));
  compare("master_weights", std::string_view(plan::Name(x.master_weights)),
          plan::Name(y.master_weights));
  compare("gradient_dtype", std::string_view(Name(x.gradient_dtype)), Name(y.gradient_dtype));
  compare("reduce_dtype", std::string_view(Name(x.reduce_dtype)), Name(y.reduce_dtype));
  compare("optimizer_state_dtype", std::string_view(Name(x.optimizer_state_dtype)),
          Name(y.optimizer_state_dtype));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string LackText(const Goal& goal, const planner::PlanFacts& facts,
                     const planner::Outcome& outcome) {
  return LackText(goal, facts, Needed(outcome), outcome.over, "");
}

std::string WhyText(const Goal& goal, const PlanRow& row) {
  if (row.simulated) {
    if (!row.outcome.illegal_message.empty()) return row.outcome.illegal_message;
    const std::string lack = LackText(goal, row.facts, row.outcome);
    if (!lack.empty()) return lack;
    if (!MeetsDeadline(goal, row.facts, row.outcome.step_time)) return "too slow for the deadline";
    return "simulated, but not among the best";
  }
  if (row.verdict == Verdict::kDoesNotFit) {
    return LackText(goal, row.facts, row.bound.needed, row.bound.over, " at least");
  }
  if (row.verdict == Verdict::kTooSlow)
    return "too slow for the deadline, according to a lower bound of the time";
  return row.verdict == Verdict::kDominated ? "dominated, according to the plan's bounds" : "bound";
}

std::vector<std::pair<std::string, std::int64_t>> Sorted(
    const std::map<std::string, std::int64_t>& reasons) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(reasons.begin(), reasons.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

std::string PortText(const PlanReport& report) {
  if (!report.port) return "";
  const PortAnswer& port = *report.port;
  std::string out =
      fmt::format("ported from  {}\nto           {}\n\n", port.from.cluster, port.ported.cluster);
  out += port.changes.empty() ? "every setting of the plan also works on this cluster\n\n"
                              : Changes(port).Text() + "\n";
  return out + Sides(report).Text() + LossText(report) + "\n";
}

Json PortJson(const PlanReport& report) {
  if (!report.port) return {};
  Json sides = Sides(report).ToJson();
  const std::optional<double> loss = Loss(report);
  return Json{{"from", sides[0]},
              {"ported", sides[1]},
              {"set", report.port->set},
              {"changes", Changes(*report.port).ToJson()},
              {"loss", loss ? Json(*loss) : Json()}};
}

}  // namespace stepcast::report
