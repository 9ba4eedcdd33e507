#include "src/report/plan_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/csv.h"
#include "src/report/json_values.h"
#include "src/report/number_text.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using planner::Goal;
using planner::Target;
using planner::Verdict;

// What columns of their own show.
bool HasColumn(std::string_view key) {
  constexpr std::string_view kShown[] = {"training.micro_batch_size",
                                         "training.gradient_accumulation",
                                         "training.global_batch_size",
                                         "training.activation_checkpointing",
                                         "data_parallel.framework",
                                         "data_parallel.zero_stage",
                                         "data_parallel",
                                         "parallelism.data",
                                         "cluster.nodes",
                                         "cluster.topology.devices"};
  return std::find(std::begin(kShown), std::end(kShown), key) != std::end(kShown);
}

std::string ShortKey(std::string_view key) {
  for (const std::string_view section : {"data_parallel.deepspeed.", "data_parallel."}) {
    if (key.starts_with(section)) return std::string(key.substr(section.size()));
  }
  return std::string(key);
}

std::string OtherSettings(const PlanRow& row) {
  std::string text;
  for (const auto& [key, value] : row.settings) {
    if (HasColumn(key) || value == "null") continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", ShortKey(key), value);
  }
  return text;
}

std::string Duration(double seconds) {
  constexpr double kHour = 3600, kDay = 24 * kHour;
  if (seconds >= kDay) return fmt::format("{} d", Decimal(seconds / kDay, 2));
  if (seconds >= kHour) return fmt::format("{} h", Decimal(seconds / kHour, 2));
  return fmt::format("{} s", Decimal(seconds, 1));
}

// Money of the whole training where its length is known, else of a million tokens.
double Money(const Goal& goal, const PlanRow& row) {
  const double million = CostOfMillionTokens(goal, row.facts, row.outcome.step_time);
  return goal.tokens > 0 ? million * goal.tokens / 1e6 : million;
}

// How much memory is missing: what a plan needs and what is to stay free of a device, less what the
// device has. Everything that is said to be lacking is this.
Bytes Lacks(const Goal& goal, const planner::PlanFacts& facts, Bytes over) {
  return over + HeadroomOf(goal, facts);
}

Bytes Needed(const planner::Outcome& outcome) { return outcome.reserved + outcome.outside; }

// What is shown of a plan in any table.
struct Shown {
  Time step_time;
  Bytes peak, needed;
};
Shown ShownOf(const PlanRow& row) {
  if (!row.simulated) return {row.bound.step_time, row.bound.memory, row.bound.needed};
  return {row.outcome.step_time, row.outcome.memory, Needed(row.outcome)};
}

ByteUnit UnitOf(const std::vector<PlanRow>& rows) {
  Bytes most;
  for (const PlanRow& row : rows) most = std::max({most, ShownOf(row).peak, ShownOf(row).needed});
  return UnitFor(most);
}

constexpr const char* kNeedsText =
    "peak: what is allocated; needs: what the allocator reserves for it and what is outside of "
    "the\n"
    "allocator (context, NCCL), which decides whether a plan fits\n";

double TokensPerSecond(const PlanRow& row) {
  return row.outcome.tokens_per_second_per_gpu * static_cast<double>(row.facts.gpus);
}

// `lacking`: of plans that will not do.
std::string PlansTable(const PlanReport& report, const std::vector<PlanRow>& rows, bool lacking) {
  const Goal& goal = report.goal;
  const bool unequal_tokens = report.result->UnequalTokens();
  const ByteUnit unit = UnitOf(rows);
  std::vector<Column> columns = {{""},    {"framework", Align::kLeft}, {"ZeRO"}, {"GPUs"}, {"mbs"},
                                 {"acc"}, {"recompute", Align::kLeft}};
  if (unequal_tokens) columns.push_back({"tokens/step"});
  columns.push_back({"step ms"});
  if (unequal_tokens) columns.push_back({"tokens/s"});
  columns.push_back({"tokens/s/GPU"});
  columns.push_back({fmt::format("peak {}", unit.name)});
  columns.push_back({fmt::format("needs {}", unit.name)});
  if (!lacking) columns.push_back({fmt::format("left {}", unit.name)});
  if (goal.tokens > 0) columns.push_back({"training"});
  if (goal.gpu_hour_price > 0) {
    columns.push_back({goal.tokens > 0 ? "money" : "money/million tokens"});
  }
  if (lacking) columns.push_back({"lacks", Align::kLeft});
  columns.push_back({"settings", Align::kLeft});
  Table table(std::move(columns));
  int rank = 0;
  for (const PlanRow& row : rows) {
    const plan::Plan& plan = row.values;
    std::vector<std::string> cells = {fmt::format("{}", ++rank),
                                      plan::Name(plan.data_parallel.framework),
                                      fmt::format("{}", plan.data_parallel.zero_stage),
                                      Grouped(row.facts.gpus),
                                      fmt::format("{}", plan.training.micro_batch_size),
                                      fmt::format("{}", plan.training.gradient_accumulation),
                                      model::Name(plan.training.activation_checkpointing)};
    if (unequal_tokens) cells.push_back(Grouped(row.facts.tokens));
    cells.push_back(Milliseconds(row.outcome.step_time));
    if (unequal_tokens) cells.push_back(Decimal(TokensPerSecond(row), 0));
    cells.push_back(Decimal(row.outcome.tokens_per_second_per_gpu, 1));
    cells.push_back(In(unit, row.outcome.memory));
    cells.push_back(In(unit, Needed(row.outcome)));
    if (!lacking) cells.push_back(In(unit, row.facts.capacity - Needed(row.outcome)));
    if (goal.tokens > 0) {
      cells.push_back(Duration(TrainingSeconds(goal, row.facts, row.outcome.step_time)));
    }
    if (goal.gpu_hour_price > 0) {
      cells.push_back(Decimal(Money(goal, row), goal.tokens > 0 ? 0 : 4));
    }
    if (lacking) {
      const Bytes lacks = Lacks(goal, row.facts, row.outcome.over);
      cells.push_back(lacks > Bytes(0) ? FormatBytes(lacks) : "time");
    }
    cells.push_back(OtherSettings(row));
    table.AddRow(std::move(cells));
  }
  return table.ToString();
}

std::string Others(std::int64_t count) {
  return count == 1 ? "1 other plan ties" : fmt::format("{} other plans tie", Grouped(count));
}

// Notes below a table of plans.
std::string NotesOn(const std::vector<PlanRow>& rows) {
  std::string out;
  int rank = 0;
  for (const PlanRow& row : rows) {
    ++rank;
    if (row.outcome.flushes > 0) {
      out += fmt::format(
          "plan {} may not fit: the allocator gives cached memory back ({} {} in the steps that "
          "were simulated)\n",
          rank, row.outcome.flushes, row.outcome.flushes == 1 ? "time" : "times");
    } else if (row.outcome.verdict == forecast::MemoryVerdict::kMayNotFit) {
      out += fmt::format("plan {} may not fit: it fits with a probability of {} %\n", rank,
                         Decimal(100 * row.outcome.fit_probability, 0));
    }
    if (row.ties == 0) continue;
    std::vector<std::string> settings;
    for (const auto& [key, values] : row.no_difference) {
      std::vector<std::string> words = values;
      std::replace(words.begin(), words.end(), std::string("null"), std::string("default"));
      settings.push_back(fmt::format("{} {}", ShortKey(key), fmt::join(words, " or ")));
    }
    out += fmt::format("{} with plan {}: {}\n", Others(row.ties), rank, fmt::join(settings, ", "));
  }
  return out;
}

// Memory that the best plan leaves free.
std::string HeadroomText(const PlanRow& row) {
  constexpr double kLittle = 0.02, kHundred = 100;
  const Bytes free = Bytes(0) - row.outcome.over;
  const double part =
      static_cast<double>(free.count()) / static_cast<double>(row.facts.capacity.count());
  std::string out = fmt::format("plan 1 leaves {} of each device free, {} %", FormatBytes(free),
                                Decimal(kHundred * part, 1));
  if (part < kLittle) {
    out += ": that is little, a forecast is not that exact; --headroom 5% asks for more";
  }
  return out + "\n";
}

// Why a plan of that memory is rejected; empty: it is not.
std::string LackText(const Goal& goal, const planner::PlanFacts& facts, Bytes needed, Bytes over,
                     const char* at_least) {
  const Bytes lacks = Lacks(goal, facts, over);
  if (lacks <= Bytes(0)) return "";
  if (over > needed - facts.capacity) {  // then it is not the devices that lack most
    return fmt::format("lacks{} {} of a node's own memory or drives", at_least, FormatBytes(over));
  }
  return fmt::format("lacks{} {}{}", at_least, FormatBytes(lacks),
                     HeadroomOf(goal, facts) > Bytes(0) ? ", headroom included" : "");
}
std::string LackText(const Goal& goal, const planner::PlanFacts& facts,
                     const planner::Outcome& outcome) {
  return LackText(goal, facts, Needed(outcome), outcome.over, "");
}

bool MeetsDeadline(const Goal& goal, const planner::PlanFacts& facts, Time step_time) {
  return !goal.deadline || TrainingSeconds(goal, facts, step_time) <= goal.deadline->seconds();
}

std::string WhyText(const Goal& goal, const PlanRow& row) {
  if (row.simulated) {
    if (!row.outcome.illegal_message.empty()) return row.outcome.illegal_message;
    const std::string lack = LackText(goal, row.facts, row.outcome);
    if (!lack.empty()) return lack;
    if (!MeetsDeadline(goal, row.facts, row.outcome.step_time)) return "too slow for the deadline";
    return "simulated, and not among the best";
  }
  if (row.verdict == Verdict::kDoesNotFit) {
    return LackText(goal, row.facts, row.bound.needed, row.bound.over, " at least");
  }
  if (row.verdict == Verdict::kTooSlow) return "too slow for the deadline, by its bound";
  return row.verdict == Verdict::kDominated ? "dominated, by its bound" : "bound";
}

std::string RunnersUpTable(const Goal& goal, const std::vector<PlanRow>& rows) {
  const ByteUnit unit = UnitOf(rows);
  Table table({{"framework", Align::kLeft},
               {"ZeRO"},
               {"GPUs"},
               {"mbs"},
               {"acc"},
               {"recompute", Align::kLeft},
               {"step ms"},
               {fmt::format("peak {}", unit.name)},
               {fmt::format("needs {}", unit.name)},
               {"why not", Align::kLeft},
               {"settings", Align::kLeft}});
  for (const PlanRow& row : rows) {
    const plan::Plan& plan = row.values;
    const char* least = row.simulated ? "" : ">=";
    const Shown shown = ShownOf(row);
    table.AddRow({plan::Name(plan.data_parallel.framework),
                  fmt::format("{}", plan.data_parallel.zero_stage), Grouped(row.facts.gpus),
                  fmt::format("{}", plan.training.micro_batch_size),
                  fmt::format("{}", plan.training.gradient_accumulation),
                  model::Name(plan.training.activation_checkpointing),
                  least + Milliseconds(shown.step_time), least + In(unit, shown.peak),
                  least + In(unit, shown.needed), WhyText(goal, row), OtherSettings(row)});
  }
  return table.ToString();
}

// In per cent.
double Change(double now, double before) { return 100 * (now / before - 1); }
double Change(Time now, Time before) { return Change(now.seconds(), before.seconds()); }
// Of the time for a token.
double ChangeForAToken(const PlanRow& now, const PlanRow& before) {
  return Change(TokensPerSecond(before), TokensPerSecond(now));
}

std::string PerCent(double change) { return Signed(change, 2); }

std::string SensitivityText(const PlanReport& report) {
  const planner::Sensitivity& sensitivity = *report.sensitivity;
  const planner::Outcome& winner = report.best.front().outcome;
  std::string out;
  Table faster({{"10 % more", Align::kLeft}, {"step ms"}, {"change %"}});
  for (const forecast::WhatIf& what_if : sensitivity.faster) {
    constexpr double kShown = 0.005;  // per cent
    if (std::abs(Change(what_if.step_time, winner.step_time)) < kShown) continue;
    faster.AddRow({Name(what_if.resource), Milliseconds(what_if.step_time),
                   PerCent(Change(what_if.step_time, winner.step_time))});
  }
  if (report.with_more_memory) {
    const PlanRow& row = *report.with_more_memory;
    faster.AddRow({"size of memory: another plan is best", Milliseconds(row.outcome.step_time),
                   PerCent(ChangeForAToken(row, report.best.front()))});
  } else {
    faster.AddRow({"size of memory", Milliseconds(winner.step_time), PerCent(0)});
  }
  out += faster.ToString();
  if (!sensitivity.faster.empty() && sensitivity.faster.front().step_time < winner.step_time) {
    out +=
        fmt::format("what bounds the step most: {}\n", Name(sensitivity.faster.front().resource));
  }
  if (report.with_more_memory) {
    const PlanRow& row = *report.with_more_memory;
    out += fmt::format("with 10 % more memory: {}, stage {}, micro-batch {}, recompute {}{}{}\n",
                       plan::Name(row.values.data_parallel.framework),
                       row.values.data_parallel.zero_stage, row.values.training.micro_batch_size,
                       model::Name(row.values.training.activation_checkpointing),
                       OtherSettings(row).empty() ? "" : ", ", OtherSettings(row));
  }
  if (sensitivity.neighbours.empty()) return out;
  Bytes most = Needed(winner);
  for (const planner::NeighbouringSetting& neighbour : sensitivity.neighbours) {
    most = std::max(most, Needed(neighbour.outcome));
  }
  // Steps of unequal tokens are compared by tokens per second; neighbouring settings have the
  // winner's GPUs.
  const bool unequal_tokens = report.result->UnequalTokens();
  const ByteUnit unit = UnitFor(most);
  Table neighbours({{"the best, with", Align::kLeft},
                    {"instead of", Align::kLeft},
                    {"step ms"},
                    {unequal_tokens ? "change % for a token" : "change %"},
                    {fmt::format("peak {}", unit.name)},
                    {fmt::format("needs {}", unit.name)},
                    {"", Align::kLeft}});
  const auto shown = [](const std::string& value) {
    return value == "null" ? std::string("default") : value;
  };
  for (const planner::NeighbouringSetting& neighbour : sensitivity.neighbours) {
    const bool exists = neighbour.illegal_message.empty();
    if (!exists) {
      neighbours.AddRow({fmt::format("{} {}", ShortKey(neighbour.key), shown(neighbour.to)),
                         shown(neighbour.from), "-", "-", "-", "-", neighbour.illegal_message});
      continue;
    }
    const double change = unequal_tokens ? Change(winner.tokens_per_second_per_gpu,
                                                  neighbour.outcome.tokens_per_second_per_gpu)
                                         : Change(neighbour.outcome.step_time, winner.step_time);
    neighbours.AddRow({fmt::format("{} {}", ShortKey(neighbour.key), shown(neighbour.to)),
                       shown(neighbour.from), Milliseconds(neighbour.outcome.step_time),
                       PerCent(change), In(unit, neighbour.outcome.memory),
                       In(unit, Needed(neighbour.outcome)),
                       LackText(report.goal, report.best.front().facts, neighbour.outcome)});
  }
  return out + "\n" + neighbours.ToString();
}

// Why a plan was not simulated: "cannot exist", "dominated: ..."
std::string VerdictText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIllegal:
      return "cannot exist";
    case Verdict::kSame:
      return "the same as another: a setting has no effect there";
    case Verdict::kDoesNotFit:
      return "cannot fit, by its bound";
    case Verdict::kTooSlow:
      return "cannot meet the deadline, by its bound";
    case Verdict::kBound:
      return "cannot be among the best, and the best needs no more memory and GPUs";
    case Verdict::kDominated:
      return "dominated: another is at least as fast with no more memory and GPUs";
    case Verdict::kSimulated:  // VerdictCounts says more of these
      return "simulated";
  }
  return "";
}

// Reasons for which plans cannot exist, the most frequent first.
std::vector<std::pair<std::string, std::int64_t>> Sorted(
    const std::map<std::string, std::int64_t>& reasons) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(reasons.begin(), reasons.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

std::string IllegalTable(const planner::SearchResult& result) {
  std::map<std::string, std::int64_t> reasons;
  for (const auto& [code, reason] : result.illegal) {
    for (const auto& [message, count] : reason.messages) reasons[message] += count;
  }
  Table table({{"plans"}, {"cannot exist, because", Align::kLeft}});
  constexpr std::size_t kMost = 12;
  std::int64_t shown = 0, rest = 0;
  for (const auto& [message, count] : Sorted(reasons)) {
    if (static_cast<std::size_t>(++shown) <= kMost) {
      table.AddRow({Grouped(count), message});
    } else {
      rest += count;
    }
  }
  if (rest > 0) {
    table.AddRow({Grouped(rest), fmt::format("{} more reasons: see --json",
                                             Grouped(shown - static_cast<std::int64_t>(kMost)))});
  }
  return table.ToString();
}

std::string CountsText(const PlanReport& report) {
  const planner::SearchResult& result = *report.result;
  Table table({{"plans"}, {"verdict", Align::kLeft}});
  for (const auto& [verdict, count] : VerdictCounts(report))
    table.AddRow({Grouped(count), verdict});
  table.AddRule();
  table.AddRow({Grouped(report.space), "all"});
  std::string out = table.ToString();
  const auto further =
      static_cast<std::int64_t>(result.outcomes.size()) - result.Count(Verdict::kSimulated);
  if (further > 0) {
    out += fmt::format("{} of those that bounds left out {} simulated to find the nearest\n",
                       Grouped(further), further == 1 ? "was" : "were");
  }
  if (result.shared > 0) {
    out += fmt::format("{} of the simulated {} the program, and so the forecast, of another\n",
                       Grouped(result.shared), result.shared == 1 ? "has" : "have");
  }
  if (result.illegal.empty()) return out;
  return out + "\n" + IllegalTable(result);
}

// What the whole document has of a plan.
Json RowJson(const Goal& goal, const PlanRow& row) {
  Json set = Json::object();
  for (const auto& [key, value] : row.settings) set[key] = value;
  const planner::Outcome& outcome = row.outcome;
  Json json{
      {"set", std::move(set)},
      {"status", outcome.fits ? "ok" : "does_not_fit"},
      {"reason", Reason(goal, row)},
      {"step_time_s", JsonSeconds(outcome.step_time)},
      {"tokens_per_s_per_gpu", outcome.tokens_per_second_per_gpu},
      {"peak_bytes", outcome.memory.count()},
      {"reserved_bytes", outcome.reserved.count()},
      {"outside_bytes", outcome.outside.count()},
      {"capacity_bytes", row.facts.capacity.count()},
      {"fits", outcome.fits},
      {"verdict", Name(outcome.verdict)},
      {"fit_probability", outcome.fit_probability},
      {"free_bytes", std::max<std::int64_t>(0, -outcome.over.count())},
      {"lacks_bytes", std::max<std::int64_t>(0, Lacks(goal, row.facts, outcome.over).count())},
      {"allocator_flushes", outcome.flushes},
      {"gpus", row.facts.gpus},
      {"tokens", row.facts.tokens}};
  if (row.ties > 0) {
    Json settings = Json::object();
    for (const auto& [key, values] : row.no_difference) settings[key] = values;
    json["as_good"] = {{"plans", row.ties}, {"settings", std::move(settings)}};
  }
  if (goal.tokens > 0) json["training_s"] = TrainingSeconds(goal, row.facts, outcome.step_time);
  if (goal.gpu_hour_price > 0) {
    json["money_per_million_tokens"] = CostOfMillionTokens(goal, row.facts, outcome.step_time);
  }
  return json;
}

Json RowsJson(const Goal& goal, const std::vector<PlanRow>& rows) {
  Json array = Json::array();
  for (const PlanRow& row : rows) array.push_back(RowJson(goal, row));
  return array;
}

Json SensitivityJson(const PlanReport& report) {
  const planner::Sensitivity& sensitivity = *report.sensitivity;
  Json faster = Json::array();
  for (const forecast::WhatIf& what_if : sensitivity.faster) {
    faster.push_back(
        {{"resource", Name(what_if.resource)}, {"step_time_s", JsonSeconds(what_if.step_time)}});
  }
  Json neighbours = Json::array();
  for (const planner::NeighbouringSetting& neighbour : sensitivity.neighbours) {
    const bool exists = neighbour.illegal_message.empty();
    neighbours.push_back(
        {{"key", neighbour.key},
         {"from", neighbour.from},
         {"to", neighbour.to},
         {"reason", neighbour.illegal_message},
         {"step_time_s", exists ? Json(JsonSeconds(neighbour.outcome.step_time)) : Json()},
         {"peak_bytes", exists ? Json(neighbour.outcome.memory.count()) : Json()},
         {"fits", exists ? Json(neighbour.outcome.fits) : Json()}});
  }
  return Json{
      {"more", planner::kMore},
      {"resources", std::move(faster)},
      {"memory", report.with_more_memory ? RowJson(report.goal, *report.with_more_memory) : Json()},
      {"settings", std::move(neighbours)}};
}

}  // namespace

std::string TargetText(const Goal& goal, bool unequal_tokens) {
  switch (goal.target) {
    case Target::kStepTime:
      return unequal_tokens ? "the least time for a token" : "the shortest step";
    case Target::kThroughput:
      return "the most tokens per second and GPU";
    case Target::kGpus:
      return "the fewest GPUs";
    case Target::kCost:
      return "the least money for a token";
    case Target::kMemory:
      return "the lowest peak of memory";
  }
  return "";
}

std::vector<std::pair<std::string, std::int64_t>> VerdictCounts(const PlanReport& report) {
  const planner::SearchResult& result = *report.result;
  const Goal& goal = report.goal;
  std::vector<std::pair<std::string, std::int64_t>> became;
  for (int i = 0; i < planner::kVerdicts; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    if (verdict == Verdict::kSimulated) continue;
    if (const std::int64_t count = result.Count(verdict); count > 0) {
      became.emplace_back(VerdictText(verdict), count);
    }
  }
  std::int64_t good = 0, too_large = 0, too_slow = 0, illegal = 0;
  for (const auto& [plan, outcome] : result.outcomes) {
    const auto at = static_cast<std::size_t>(plan);
    if (result.verdicts[at] != Verdict::kSimulated) continue;
    const planner::PlanFacts& facts = result.facts[at];
    if (!outcome.illegal_message.empty()) {
      ++illegal;
    } else if (!outcome.fits || Lacks(goal, facts, outcome.over) > Bytes(0)) {
      ++too_large;
    } else {
      ++(MeetsDeadline(goal, facts, outcome.step_time) ? good : too_slow);
    }
  }
  const auto add = [&](std::int64_t count, const char* text) {
    if (count > 0) became.emplace_back(text, count);
  };
  add(illegal, "simulated: cannot exist, as only a price says");
  add(too_large, goal.headroom > Bytes(0) || goal.headroom_part > 0
                     ? "simulated: do not fit, or leave too little free"
                     : "simulated: do not fit");
  add(too_slow, "simulated: miss the deadline");
  add(good, goal.deadline ? "simulated: fit and meet the deadline" : "simulated: fit");
  return became;
}

std::string HeldText(const PlanReport& report) {
  std::vector<std::string> settings;
  for (const planner::HeldSetting& held : report.held) {
    std::string text = held.key;
    if (!held.of.empty()) {
      text += fmt::format(" (where {} is {})", held.of.substr(held.of.find('.') + 1),
                          fmt::join(held.at, " or "));
    }
    settings.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(settings, ", "));
}

std::string Reason(const planner::Goal& goal, const PlanRow& row) {
  const planner::Outcome& outcome = row.outcome;
  if (!outcome.fits) {
    return fmt::format("needs {} more than the device has", FormatBytes(outcome.over));
  }
  const std::string lack = LackText(goal, row.facts, outcome);
  if (!lack.empty()) return lack;
  const bool feasible = MeetsDeadline(goal, row.facts, outcome.step_time);
  return feasible ? "" : "too slow for the deadline";
}

std::string PlanText(const PlanReport& report) {
  const Goal& goal = report.goal;
  std::string out = fmt::format("{}\n\ngoal   {}\n", report.name,
                                TargetText(goal, report.result->UnequalTokens()));
  if (report.result->UnequalTokens()) {
    out +=
        "       (steps of some plans have more tokens than those of others, and so train "
        "differently)\n";
  }
  if (goal.deadline) {
    out +=
        fmt::format("       {} tokens within {}\n", Grouped(static_cast<std::int64_t>(goal.tokens)),
                    Duration(goal.deadline->seconds()));
  }
  if (goal.headroom_part > 0) {
    constexpr double kHundred = 100;
    out += fmt::format("       {} % of each device free\n",
                       fmt::format("{:g}", kHundred * goal.headroom_part));
  } else if (goal.headroom > Bytes(0)) {
    out += fmt::format("       {} of each device free\n", FormatBytes(goal.headroom));
  }
  out += fmt::format(
      "space  {} {}, {} looked at closely, {} simulated; the answer is exact{}\n",
      Grouped(report.space), report.space == 1 ? "plan" : "plans",
      Grouped(report.result->sharpened),
      Grouped(static_cast<std::int64_t>(report.result->outcomes.size()) - report.result->shared),
      report.held.empty() ? "" : " for what is held");
  if (!report.held.empty()) {
    out += fmt::format(
        "held   by the scenario: {}\n"
        "       other values of these were not tried; --vary KEY=V1,V2 tries them\n",
        HeldText(report));
  }
  for (const std::string& note : report.notes) out += fmt::format("note   {}\n", note);
  out += "\n";
  if (report.best.empty()) {
    const bool legal = report.result->Count(Verdict::kIllegal) < report.space;
    out += !legal          ? "no plan can exist\n"
           : goal.deadline ? "no plan fits and meets the deadline; those that come nearest:\n\n"
           : HeadroomOf(goal, report.result->facts.front()) > Bytes(0)
               ? "no plan leaves that much of its devices free; those that lack least:\n\n"
               : "no plan fits; those that lack least:\n\n";
    if (!report.nearest.empty()) {
      out += PlansTable(report, report.nearest, true) + kNeedsText;
      if (HeadroomOf(goal, report.nearest.front().facts) > Bytes(0)) {
        out += "lacks: what is missing for it and for what is to stay free\n";
      }
    }
    return out + "\n" + CountsText(report);
  }
  out += "best\n" + PlansTable(report, report.best, false) + kNeedsText + NotesOn(report.best) +
         HeadroomText(report.best.front()) + "\n";
  if (!report.pareto.empty()) {
    out +=
        fmt::format("no plan has {}, less memory and fewer GPUs than one of these\n",
                    report.result->UnequalTokens() ? "less time for a token" : "a shorter step") +
        PlansTable(report, report.pareto, false) + NotesOn(report.pareto) + "\n";
  }
  if (report.sensitivity) out += SensitivityText(report) + "\n";
  if (!report.runners_up.empty()) {
    out += "runners-up\n" + RunnersUpTable(goal, report.runners_up) + "\n";
  }
  return out + CountsText(report);
}

std::string PlanCsv(const PlanReport& report) {
  // Every key that a plan has, in the order in which they are met.
  std::vector<std::string> keys;
  const auto note = [&](const std::vector<PlanRow>& rows) {
    for (const PlanRow& row : rows) {
      for (const auto& [key, value] : row.settings) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
      }
    }
  };
  note(report.best);
  note(report.pareto);
  note(report.nearest);
  std::vector<std::string> fields = {"list", "rank"};
  fields.insert(fields.end(), keys.begin(), keys.end());
  for (const char* name : {"status", "step_time_s", "tokens_per_s_per_gpu", "peak_bytes", "fits",
                           "gpus", "reserved_bytes", "outside_bytes", "capacity_bytes", "tokens",
                           "verdict", "fit_probability"}) {
    fields.emplace_back(name);
  }
  std::string out = CsvRecord(fields);
  const auto append = [&](const char* list, const std::vector<PlanRow>& rows) {
    int rank = 0;
    for (const PlanRow& row : rows) {
      fields = {list, fmt::format("{}", ++rank)};
      for (const std::string& key : keys) {
        const auto found = std::find_if(row.settings.begin(), row.settings.end(),
                                        [&](const auto& setting) { return setting.first == key; });
        fields.push_back(found == row.settings.end() ? "" : found->second);
      }
      fields.emplace_back(row.outcome.fits ? "ok" : "does_not_fit");
      fields.push_back(fmt::format("{}", JsonSeconds(row.outcome.step_time)));
      fields.push_back(fmt::format("{}", row.outcome.tokens_per_second_per_gpu));
      fields.push_back(fmt::format("{}", row.outcome.memory.count()));
      fields.emplace_back(row.outcome.fits ? "true" : "false");
      for (const std::int64_t number :
           {row.facts.gpus, row.outcome.reserved.count(), row.outcome.outside.count(),
            row.facts.capacity.count(), row.facts.tokens}) {
        fields.push_back(fmt::format("{}", number));
      }
      fields.emplace_back(Name(row.outcome.verdict));
      fields.push_back(fmt::format("{}", row.outcome.fit_probability));
      out += CsvRecord(fields);
    }
  };
  append("best", report.best);
  append("pareto", report.pareto);
  append("nearest", report.nearest);
  return out;
}

std::string PlanJson(const PlanReport& report) {
  const planner::SearchResult& result = *report.result;
  Json pruned = Json::object();
  for (const Verdict verdict : {Verdict::kIllegal, Verdict::kSame, Verdict::kDoesNotFit,
                                Verdict::kTooSlow, Verdict::kBound, Verdict::kDominated}) {
    pruned[Name(verdict)] = result.Count(verdict);
  }
  Json illegal = Json::object();
  for (const auto& [code, reason] : result.illegal) {
    Json reasons = Json::array();
    for (const auto& [message, count] : Sorted(reason.messages)) {
      reasons.push_back({{"reason", message}, {"count", count}});
    }
    illegal[code] = {
        {"count", reason.count}, {"example", reasons[0]["reason"]}, {"reasons", reasons}};
  }
  Json became = Json::array();
  for (const auto& [what, count] : VerdictCounts(report)) {
    became.push_back({{"what", what}, {"count", count}});
  }
  Json held = Json::array();
  for (const planner::HeldSetting& setting : report.held) {
    held.push_back({{"key", setting.key},
                    {"of", setting.of.empty() ? Json() : Json(setting.of)},
                    {"at", setting.at}});
  }
  Json losers = Json::array();
  for (const PlanRow& row : report.runners_up) {
    Json set = Json::object();
    for (const auto& [key, value] : row.settings) set[key] = value;
    const Shown shown = ShownOf(row);
    losers.push_back({{"set", std::move(set)},
                      {"reason", WhyText(report.goal, row)},
                      {"simulated", row.simulated},
                      {"step_time_s", JsonSeconds(shown.step_time)},
                      {"peak_bytes", shown.peak.count()},
                      {"needed_bytes", shown.needed.count()}});
  }
  return Text(Json{
      {"stepcast", 1},
      {"scenario", report.name},
      {"target", Name(report.goal.target)},
      {"compared_by", result.UnequalTokens() ? "time_per_token" : "step_time"},
      {"headroom", {{"bytes", report.goal.headroom.count()}, {"part", report.goal.headroom_part}}},
      {"best", RowsJson(report.goal, report.best)},
      {"pareto", RowsJson(report.goal, report.pareto)},
      {"nearest", RowsJson(report.goal, report.nearest)},
      {"pruned", std::move(pruned)},
      {"illegal", std::move(illegal)},
      {"became", std::move(became)},
      {"notes", report.notes},
      {"held", std::move(held)},
      {"losers", std::move(losers)},
      {"sensitivity", report.sensitivity ? SensitivityJson(report) : Json()},
      {"space", report.space},
      {"simulated", static_cast<std::int64_t>(result.outcomes.size()) - result.shared},
      {"exact", true},
      {"run", {{"seconds", report.seconds}}}});
}

}  // namespace stepcast::report
