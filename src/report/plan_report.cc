#include "src/report/plan_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/plan_rows.h"
#include "src/report/table.h"
#include "src/report/training_report.h"

namespace stepcast::report {
namespace {

using enum Align;

using planner::Goal;
using planner::Target;
using planner::Verdict;

// Whether a setting has its own column.
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

ByteUnit UnitOf(const std::vector<PlanRow>& rows) {
  Bytes most;
  for (const PlanRow& row : rows) most = std::max({most, ShownOf(row).peak, ShownOf(row).needed});
  return UnitFor(most);
}

constexpr const char* kNeedsText =
    "peak: allocated memory; needs: reserved memory plus memory outside of the allocator (context, "
    "NCCL); a plan fits if the device has at least the needed memory\n";

// The settings that both tables of plans show.
std::vector<Figure> SettingFigures(const PlanRow& row) {
  const plan::Plan& plan = row.values;
  return {{{"framework", "", kLeft}, plan::Name(plan.data_parallel.framework)},
          {{"ZeRO", ""}, Plain(plan.data_parallel.zero_stage)},
          {{"GPUs", ""}, row.facts.gpus},
          {{"mbs", ""}, Plain(plan.training.micro_batch_size)},
          {{"acc", ""}, Plain(plan.training.gradient_accumulation)},
          {{"recompute", "", kLeft}, model::Name(plan.training.activation_checkpointing)}};
}

// `lacking`: the plans do not fit.
std::string PlansTable(const PlanReport& report, const std::vector<PlanRow>& rows, bool lacking) {
  const Goal& goal = report.goal;
  const bool unequal_tokens = report.result->UnequalTokens();
  const ByteUnit unit = UnitOf(rows);
  const auto in_unit = [&](const char* what) { return fmt::format("{} {}", what, unit.name); };
  AnswerTable table;
  std::string settings;  // below the table
  const auto add_row = [&](const std::string& name, const PlanRow& row) {
    if (const std::string text = OtherSettings(row); !text.empty()) {
      settings += fmt::format("{}  {}\n", name, text);
    }
    const planner::Outcome& outcome = row.outcome;
    std::vector<Figure> figures = {{{"", ""}, name}};
    const auto add = [&](std::vector<Figure> more) {
      figures.insert(figures.end(), more.begin(), more.end());
    };
    add(SettingFigures(row));
    if (unequal_tokens) add({{{"tokens/step", ""}, row.facts.tokens}});
    add({{{"step ms", ""}, outcome.step_time}, {{"range", ""}, RangeText(row)}});
    if (unequal_tokens) add({{{"tokens/s", ""}, Fixed(TokensPerSecond(row), 0)}});
    add({{{"tokens/s/GPU", "", kRight, /*spare=*/true},
          Fixed(outcome.tokens_per_second_per_gpu, 1)},
         {{in_unit("peak"), "", kRight, /*spare=*/true}, Amount(unit, outcome.memory)},
         {{in_unit("needs"), ""}, Amount(unit, Needed(outcome))}});
    if (!lacking)
      add({{{in_unit("left"), ""}, Amount(unit, row.facts.capacity - Needed(outcome))}});
    add({{{"fits %", ""}, FitText(outcome)}});
    add(TrainingFigures(goal.training, StepOf(row.facts, outcome)));
    if (lacking) {
      const Bytes lacks = Lacks(goal, row.facts, outcome.over);
      const bool in_time = MeetsDeadline(goal, row.facts, outcome.step_time);
      add({{{"lacks", "", kLeft},
            lacks > Bytes(0) ? FormatBytes(lacks) : std::string(in_time ? "-" : "time")}});
    }
    table.AddFigures(std::move(figures));
  };
  if (report.own) add_row("yours", *report.own);
  int rank = 0;
  for (const PlanRow& row : rows) add_row(fmt::format("{}", ++rank), row);
  return table.Text() + settings;
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
          "plan {} may not fit, because the allocator must return cached memory ({} {} in the "
          "simulated steps)\n",
          rank, row.outcome.flushes, row.outcome.flushes == 1 ? "time" : "times");
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

std::string NearText(const PlanReport& report) {
  const PlanRow& best = report.best.front();
  std::int64_t near = 0;
  for (const auto& [plan, outcome] : report.result->outcomes) {
    const planner::PlanFacts& facts = report.result->states.FactsOf(plan);
    if (facts.gpus != best.facts.gpus || !Eligible(report.goal, facts, outcome)) continue;
    near +=
        outcome.tokens_per_second_per_gpu * (1 + kTie) >= best.outcome.tokens_per_second_per_gpu;
  }
  if (near < 2) return "";
  return fmt::format(
      "{} of the simulated plans are at most {:.0f} % slower than the best plan, which is within "
      "the forecast error\n",
      Grouped(near), kHundred * kTie);
}

// The gain of the best plan over the scenario's own, and of a faster plan that may not fit.
std::string OwnText(const PlanReport& report) {
  std::string out;
  if (report.own) {
    const PlanRow& own = *report.own;
    out += fmt::format("yours  {} ms ({}), ", Milliseconds(own.outcome.step_time),
                       own.range ? "90 % range: " + RangeText(own) : "range unknown");
    out += own.outcome.fits ? fmt::format("fits with {} %", FitText(own.outcome))
                            : fmt::format("lacks {}", FormatBytes(own.outcome.over));
    if (const std::string gain = GainText(report); !gain.empty()) out += "; " + gain;
    out += "\n";
  }
  if (report.risky) {
    const PlanRow& risky = *report.risky;
    out += fmt::format(
        "risky  {}: {} % faster than the best plan, but the probability that the plan fits is {} "
        "%\n",
        PlanInShort(risky), Decimal(kHundred * Longer(report.best.front(), risky), 1),
        FitText(risky.outcome));
  }
  return out.empty() ? out : out + "\n";
}

// The memory that the best plan leaves free.
std::string HeadroomText(const PlanRow& row) {
  constexpr double kLittle = 0.02;
  const Bytes free = Bytes(0) - row.outcome.over;
  const double part =
      static_cast<double>(free.count()) / static_cast<double>(row.facts.capacity.count());
  std::string out = fmt::format("with plan 1, {} of each device's memory remain free ({} %)",
                                FormatBytes(free), Decimal(kHundred * part, 1));
  if (part < kLittle) {
    out += ", which is less than the forecast error; to reserve more, add --headroom 5%";
  }
  return out + "\n";
}

std::string RunnersUpTable(const Goal& goal, const std::vector<PlanRow>& rows) {
  const ByteUnit unit = UnitOf(rows);
  AnswerTable table;
  for (const PlanRow& row : rows) {
    const char* least = row.simulated ? "" : ">=";
    const Shown shown = ShownOf(row);
    std::vector<Figure> figures = SettingFigures(row);
    for (const Figure& figure : std::vector<Figure>{
             {{"step ms", ""}, least + Milliseconds(shown.step_time)},
             {{fmt::format("peak {}", unit.name), ""}, least + In(unit, shown.peak)},
             {{fmt::format("needs {}", unit.name), ""}, least + In(unit, shown.needed)},
             {{"why not", "", kLeft}, WhyText(goal, row)},
             {{"settings", "", kLeft}, OtherSettings(row)}}) {
      figures.push_back(figure);
    }
    table.AddFigures(std::move(figures));
  }
  return table.Text();
}

// In per cent.
double Change(double now, double before) { return 100 * (now / before - 1); }
double Change(Time now, Time before) { return Change(now.seconds(), before.seconds()); }
// The change of the time per token.
double ChangeForAToken(const PlanRow& now, const PlanRow& before) {
  return Change(TokensPerSecond(before), TokensPerSecond(now));
}

std::string ChangeText(double change) { return Signed(change, 2); }

std::string SensitivityText(const PlanReport& report) {
  const planner::Sensitivity& sensitivity = *report.sensitivity;
  const planner::Outcome& winner = report.best.front().outcome;
  std::string out;
  Table faster({{"10 % more", kLeft}, {"step ms"}, {"change %"}});
  for (const forecast::WhatIf& what_if : sensitivity.faster) {
    constexpr double kShown = 0.005;  // per cent
    if (std::abs(Change(what_if.step_time, winner.step_time)) < kShown) continue;
    faster.AddRow({Name(what_if.resource), Milliseconds(what_if.step_time),
                   ChangeText(Change(what_if.step_time, winner.step_time))});
  }
  if (report.with_more_memory) {
    const PlanRow& row = *report.with_more_memory;
    faster.AddRow({"size of memory: another plan is best", Milliseconds(row.outcome.step_time),
                   ChangeText(ChangeForAToken(row, report.best.front()))});
  } else {
    faster.AddRow({"size of memory", Milliseconds(winner.step_time), ChangeText(0)});
  }
  out += faster.ToString();
  if (!sensitivity.faster.empty() && sensitivity.faster.front().step_time < winner.step_time) {
    out += fmt::format("the resource with the largest effect on the step is {}\n",
                       Name(sensitivity.faster.front().resource));
  }
  if (report.with_more_memory) {
    const PlanRow& row = *report.with_more_memory;
    out += fmt::format(
        "best plan with 10 % more memory: {}, stage {}, micro-batch {}, recompute {}{}{}\n",
        plan::Name(row.values.data_parallel.framework), row.values.data_parallel.zero_stage,
        row.values.training.micro_batch_size,
        model::Name(row.values.training.activation_checkpointing),
        OtherSettings(row).empty() ? "" : ", ", OtherSettings(row));
  }
  if (sensitivity.neighbours.empty()) return out;
  Bytes most = Needed(winner);
  for (const planner::NeighbouringSetting& neighbour : sensitivity.neighbours) {
    most = std::max(most, Needed(neighbour.outcome));
  }
  // Steps with unequal tokens are compared by tokens per second. Neighboring settings use the
  // winner's GPUs.
  const bool unequal_tokens = report.result->UnequalTokens();
  const ByteUnit unit = UnitFor(most);
  Table neighbours({{"best plan, with", kLeft},
                    {"instead of", kLeft},
                    {"step ms"},
                    {unequal_tokens ? "change per token, %" : "change %"},
                    {fmt::format("peak {}", unit.name)},
                    {fmt::format("needs {}", unit.name)},
                    {"", kLeft}});
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
                       ChangeText(change), In(unit, neighbour.outcome.memory),
                       In(unit, Needed(neighbour.outcome)),
                       LackText(report.goal, report.best.front().facts, neighbour.outcome)});
  }
  return out + "\n" + neighbours.ToString();
}

// The command that executes the best plan.
std::string ExecutionText(const PlanReport& report) {
  if (!report.execution) return "";
  if (!report.execution->refused.empty()) {
    return fmt::format("stepcast can forecast plan 1 but cannot execute it: {}\n\n",
                       fmt::join(report.execution->refused, "; "));
  }
  return fmt::format("to execute plan 1 and compare the times with the forecast{}:\n{}\n",
                     report.file.empty() ? ", after --emit FOLDER" : "",
                     CommandText(ExecutionCommand(report)));
}

// The best plan for each number of GPUs, and the numbers without an acceptable plan.
std::string SizesText(const PlanReport& report) {
  if (report.by_gpus.empty()) return "";
  std::vector<SizeRow> sizes;
  std::vector<std::string> without;
  for (const SizeAnswer& size : report.by_gpus) {
    if (!size.best) {
      without.push_back(Grouped(size.gpus));
      continue;
    }
    const PlanRow& row = *size.best;
    sizes.push_back(
        {StepOf(row.facts, row.outcome), row.outcome.tokens_per_second_per_gpu, PlanInShort(row)});
  }
  std::string out = SizesText(report.goal.training, std::move(sizes));
  if (!without.empty()) {
    out += fmt::format("no plan with {} GPUs meets the goal\n", fmt::join(without, ", "));
  }
  return out + "\n";
}

// What became of plans, in the order of Verdict. VerdictCounts says more of the simulated ones.
constexpr const char* kVerdictTexts[planner::kVerdicts] = {
    "cannot exist",
    "same as another plan: only settings without effect differ",
    "cannot fit, according to a lower bound of the memory",
    "cannot meet the deadline, according to a lower bound of the time",
    "pruned: provably slower than the best plan, at equal or higher cost",
    "dominated: another plan is at least as fast, at equal or lower cost",
    "open: the search ended before the plan was examined",
    "simulated"};

std::string IllegalTable(const planner::SearchResult& result) {
  std::map<std::string, std::int64_t> reasons;
  for (const auto& [code, reason] : result.illegal) {
    for (const auto& [message, refused] : reason.messages) reasons[message] += refused.count;
  }
  Table table({{"plans"}, {"cannot exist, because", kLeft}});
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

// What the search has proved, and with how much work.
std::string ProofText(const PlanReport& report) {
  const planner::SearchResult& result = *report.result;
  const auto simulated = static_cast<std::int64_t>(result.outcomes.size()) - result.shared;
  std::string out = fmt::format(
      "{} {}: {} were examined closely and {} simulated: ", Grouped(report.space),
      report.space == 1 ? "plan" : "plans", Grouped(result.sharpened), Grouped(simulated));
  if (!result.proved) {
    return out + fmt::format(
                     "the search was {} early; {} {} may be better than the best plan, by up to {} "
                     "% of the best plan's {}\n\n",
                     report.interrupted ? "interrupted" : "ended", Grouped(result.open),
                     result.open == 1 ? "plan" : "plans", Decimal(100 * (1 - result.least), 1),
                     report.goal.target == Target::kEnergy ? "energy" : "step");
  }
  return out + fmt::format("no other plan is better{}\n\n", report.held.empty()
                                                                ? ""
                                                                : ", with the settings "
                                                                  "that the scenario "
                                                                  "fixes");
}

std::string CountsText(const PlanReport& report) {
  const planner::SearchResult& result = *report.result;
  Table table({{"plans"}, {"verdict", kLeft}});
  for (const auto& [verdict, count] : VerdictCounts(report))
    table.AddRow({Grouped(count), verdict});
  table.AddRule();
  table.AddRow({Grouped(report.space), "all"});
  std::string out = ProofText(report) + table.ToString();
  const auto further =
      static_cast<std::int64_t>(result.outcomes.size()) - result.Count(Verdict::kSimulated);
  if (further > 0) {
    out += fmt::format("plans that were simulated only to find the plans nearest to fitting: {}\n",
                       Grouped(further));
  }
  if (result.shared > 0) {
    out += fmt::format(
        "{} of the simulated {} the same program as another plan, so their forecasts are equal\n",
        Grouped(result.shared), result.shared == 1 ? "has" : "have");
  }
  if (result.illegal.empty()) return out;
  return out + "\n" + IllegalTable(result);
}

}  // namespace

std::string GainText(const PlanReport& report) {
  if (report.best.empty()) return "";
  const PlanRow& best = report.best.front();
  if (best.plan == report.own->plan && best.settings.empty()) {
    return report.result->proved ? "your plan is the best" : "no better plan was found";
  }
  if (report.goal.target == Target::kEnergy) {
    const auto energy = [&](const PlanRow& row) {
      return EnergyOfTraining(report.goal.training, StepOf(row.facts, row.outcome));
    };
    return fmt::format("the best plan needs {} % less energy than yours",
                       Decimal(kHundred * (1 - energy(best) / energy(*report.own)), 1));
  }
  const double faster = Longer(*report.own, best);
  if (faster < 0) {
    return fmt::format("the best plan that was found is {} % slower",
                       Decimal(-kHundred * faster / (1 + faster), 1));
  }
  return fmt::format(
      "the best plan is {} % faster than yours{}", Decimal(kHundred * faster, 1),
      faster < kTie ? ", which is a tie: the forecast error between plans on one machine is 2 %"
                    : "");
}

CommandWords ExecutionCommand(const PlanReport& report) {
  const ExecutionAnswer& execution = *report.execution;
  // A scenario without a file is contained in the written plan.
  const bool in_file = !report.file.empty();
  CommandWords command;
  if (execution.launched) {
    command.words = {"mpirun", "-n", fmt::format("{}", execution.ranks)};
  }
  for (const std::string& word : {std::string("stepcast"), std::string("validate"),
                                  in_file ? report.file : std::string("FOLDER/plan.json"),
                                  std::string("--backend"), execution.backend}) {
    command.words.push_back(word);
  }
  if (!in_file) return command;
  command.set = report.set;
  return command.With(report.best.front().settings);
}

std::string TargetText(const Goal& goal, bool unequal_tokens) {
  constexpr const char* kTexts[] = {"the shortest step",
                                    "the most tokens per second and GPU",
                                    "the fewest GPUs",
                                    "the lowest cost per token",
                                    "the lowest peak memory",
                                    "the shortest training, including failures",
                                    "the least energy, including failures"};
  static_assert(std::size(kTexts) == std::size(planner::kTargets));
  if (goal.target == Target::kStepTime && unequal_tokens) return "the least time per token";
  return kTexts[static_cast<std::size_t>(goal.target)];
}

std::vector<std::pair<std::string, std::int64_t>> VerdictCounts(const PlanReport& report) {
  const planner::SearchResult& result = *report.result;
  const Goal& goal = report.goal;
  std::vector<std::pair<std::string, std::int64_t>> became;
  for (int i = 0; i < planner::kVerdicts; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    if (verdict == Verdict::kSimulated) continue;
    if (const std::int64_t count = result.Count(verdict); count > 0) {
      became.emplace_back(kVerdictTexts[i], count);
    }
  }
  std::int64_t good = 0, too_large = 0, too_slow = 0, illegal = 0;
  for (const auto& [plan, outcome] : result.outcomes) {
    if (result.states.Of(plan).verdict != Verdict::kSimulated) continue;
    const planner::PlanFacts& facts = result.states.FactsOf(plan);
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
  add(illegal, "simulated: illegal, because its costs cannot be computed");
  add(too_large, goal.headroom > Bytes(0) || goal.headroom_part > 0
                     ? "simulated: do not fit, or leave too little memory free"
                     : "simulated: do not fit");
  add(too_slow, "simulated: miss the deadline");
  add(good, goal.training.deadline ? "simulated: fit and meet the deadline" : "simulated: fit");
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
    return fmt::format("needs {} more memory than the device has", FormatBytes(outcome.over));
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
        "       (the plans have different numbers of tokens per step, so the training differs)\n";
  }
  if (goal.training.said()) out += fmt::format("       {}\n", TargetText(goal.training));
  if (goal.headroom_part > 0) {
    constexpr double kTenths = 10;
    out += fmt::format("       at least {:g} % of each device's memory must remain free\n",
                       std::round(kTenths * kHundred * goal.headroom_part) / kTenths);
  } else if (goal.headroom > Bytes(0)) {
    out += fmt::format("       at least {} of each device's memory must remain free\n",
                       FormatBytes(goal.headroom));
  }
  out += fmt::format("tried  {}\n", report.tried);
  if (!report.not_tried.empty()) {
    out += fmt::format("       not {}\n", fmt::join(report.not_tried, ", "));
  }
  if (!report.held.empty()) {
    out += fmt::format(
        "fixed  by the scenario: {}\n"
        "       no other values were tried; to try other values, add --vary KEY=V1,V2\n",
        HeldText(report));
  }
  for (const std::string& note : report.notes) out += fmt::format("note   {}\n", note);
  out += "\n";
  out += PortText(report) + OwnText(report);
  if (report.best.empty()) {
    const bool legal = report.result->Count(Verdict::kIllegal) < report.space;
    out += !legal                   ? "no plan is legal\n"
           : !report.result->proved ? "no plan that fits was found in the given time\n"
           : goal.training.deadline
               ? "no plan fits and meets the deadline; the plans that come closest:\n\n"
           : HeadroomOf(goal, report.result->states.families().front().facts) > Bytes(0)
               ? "no plan leaves enough memory free; the plans that come closest:\n\n"
               : "no plan fits; the plans that come closest:\n\n";
    if (!report.nearest.empty()) {
      out += PlansTable(report, report.nearest, true) + kNeedsText;
      if (HeadroomOf(goal, report.nearest.front().facts) > Bytes(0)) {
        out += "lacks: missing memory, including memory that must remain free\n";
      }
    }
    if (report.would_fit)
      out += "\nThe plan nearest to fitting:\n" + FittingText(*report.would_fit);
    return out + "\n" + KindsText(report) + LayoutAnswerText(report) + CountsText(report);
  }
  out += KindsText(report) + LayoutAnswerText(report);
  out += "best plans according to the forecasts\n" + PlansTable(report, report.best, false) +
         kNeedsText + NotesOn(report.best) + NearText(report) + HeadroomText(report.best.front()) +
         "\n" + ExecutionText(report);
  if (!report.pareto.empty()) {
    out +=
        fmt::format(
            "the Pareto front: for each plan, no other plan has {}, less memory and fewer GPUs\n",
            report.result->UnequalTokens() ? "less time per token" : "a shorter step") +
        PlansTable(report, report.pareto, false) + NotesOn(report.pareto) + "\n";
  }
  out += SizesText(report);
  if (report.sensitivity) out += SensitivityText(report) + "\n";
  if (!report.runners_up.empty()) {
    out += "runners-up\n" + RunnersUpTable(goal, report.runners_up) + "\n";
  }
  return out + CountsText(report);
}

}  // namespace stepcast::report
