#include "src/cli/plan_command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/files_read.h"
#include "src/base/quantity.h"
#include "src/cli/asked_file.h"
#include "src/cli/kept_results.h"
#include "src/cli/page_subject.h"
#include "src/cli/run_facts.h"
#include "src/cli/spread.h"
#include "src/cli/stopwatch.h"
#include "src/cli/varied.h"
#include "src/cli/warnings.h"
#include "src/forecast/memory_summary.h"
#include "src/planner/answers.h"
#include "src/planner/evaluations.h"
#include "src/planner/per_thread.h"
#include "src/planner/plan_problem.h"
#include "src/planner/plan_space.h"
#include "src/planner/result_store.h"
#include "src/planner/search.h"
#include "src/planner/sensitivity.h"
#include "src/planner/sweep_grid.h"
#include "src/planner/worker_pool.h"
#include "src/report/plan_page.h"
#include "src/report/plan_report.h"
#include "src/report/plan_view.h"
#include "src/scenario/load.h"
#include "src/scenario/variants.h"

namespace stepcast::cli {
namespace {

using planner::Goal;
using planner::PlanSpace;
using planner::Target;
using Settings = std::vector<std::pair<std::string, std::string>>;

Diagnostic Fault(const char* option, const std::string& value, std::string message,
                 std::string hint) {
  return {"planner.option",
          {fmt::format("{} {}", option, value), 0, 0},
          std::move(message),
          std::move(hint)};
}

// "300e9", "1,000,000" is not one.
std::optional<double> PositiveNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(number) || number <= 0) return std::nullopt;
  return number;
}

// Times of trainings, which have units that steps have not, in seconds.
std::optional<double> LongTime(std::string_view text) {
  const std::pair<std::string_view, double> units[] = {
      {"d", 86'400.0}, {"h", 3'600.0}, {"min", 60.0}, {"s", 1.0}};
  for (const auto& [unit, seconds] : units) {
    if (!text.ends_with(unit)) continue;
    std::string_view number = text.substr(0, text.size() - unit.size());
    while (number.ends_with(' ')) number.remove_suffix(1);
    const auto value = PositiveNumber(number);
    if (!value) return std::nullopt;
    return *value * seconds;
  }
  return std::nullopt;
}

// "4 GiB", "5%", "5 %".
void ReadHeadroom(const std::string& text, Goal& goal, Diagnostics& faults) {
  if (text.empty()) return;
  constexpr const char* kHint = "write for example '4 GiB' or '5%'";
  if (text.ends_with('%')) {
    std::string_view number(text.data(), text.size() - 1);
    while (number.ends_with(' ')) number.remove_suffix(1);
    const auto percent = PositiveNumber(number);
    constexpr double kWhole = 100;
    if (percent && *percent < kWhole) {
      goal.headroom_part = *percent / kWhole;
    } else {
      faults.push_back(Fault("--headroom", text,
                             fmt::format("must be above 0 and below 100 %: {}", Quoted(text)),
                             kHint));
    }
    return;
  }
  const auto size = ParseBytes(text);
  if (text == "0" || (size && *size >= Bytes(0))) {
    goal.headroom = size ? *size : Bytes(0);
  } else {
    faults.push_back(
        Fault("--headroom", text,
              size ? fmt::format("must not be negative: {}", Quoted(text)) : size.error().message,
              kHint));
  }
}

Goal ReadGoal(const PlanOptions& options, Diagnostics& faults) {
  Goal goal;
  const auto* const target =
      std::find_if(std::begin(planner::kTargets), std::end(planner::kTargets),
                   [&](Target known) { return options.target == planner::Name(known); });
  if (target == std::end(planner::kTargets)) {
    faults.push_back(Fault("--target", options.target,
                           fmt::format("there is no such target: {}", Quoted(options.target)),
                           "there are: step_time, throughput, gpus, cost, memory"));
  } else {
    goal.target = *target;
  }
  if (!options.tokens.empty()) {
    const auto tokens = PositiveNumber(options.tokens);
    if (tokens) {
      goal.tokens = *tokens;
    } else {
      faults.push_back(Fault("--tokens", options.tokens,
                             fmt::format("this is no number of tokens: {}", Quoted(options.tokens)),
                             "write for example 300e9"));
    }
  }
  if (!options.deadline.empty()) {
    constexpr double kMostSeconds = 100 * 86'400.0;  // what the clock holds
    const auto seconds = LongTime(options.deadline);
    if (!seconds) {
      faults.push_back(Fault("--deadline", options.deadline,
                             fmt::format("this is no time: {}", Quoted(options.deadline)),
                             "write for example '30 d' or '12 h'; at most 100 d"));
    } else if (*seconds > kMostSeconds) {
      faults.push_back(
          Fault("--deadline", options.deadline,
                fmt::format("a deadline is at most 100 d: {}", Quoted(options.deadline)),
                "give a part of the training: half the time for half the --tokens"));
    } else {
      goal.deadline = Picoseconds(std::llround(*seconds * 1e12));
    }
    if (options.tokens.empty()) {
      faults.push_back(Fault("--deadline", options.deadline,
                             "nothing says how long the training is", "add --tokens 300e9"));
    }
  }
  if (options.price && !(*options.price > 0 && std::isfinite(*options.price))) {
    faults.push_back(Fault("--price", fmt::format("{}", *options.price),
                           fmt::format("must be more than 0: '{}'", *options.price),
                           "write what a GPU costs in an hour, for example 2.5"));
  }
  goal.gpu_hour_price = options.price.value_or(0);
  ReadHeadroom(options.headroom, goal, faults);
  if (goal.target == Target::kCost && !options.price) {
    faults.push_back(Fault("--target", options.target, "nothing says what a GPU costs",
                           "add --price 2.5, the price of a GPU hour"));
  }
  if (goal.target == Target::kGpus && options.deadline.empty()) {
    faults.push_back(Fault("--target", options.target,
                           "without a deadline the fewest GPUs are those that it fits on",
                           "add --deadline '30 d' --tokens 300e9"));
  }
  return goal;
}

std::vector<plan::Framework> ReadFrameworks(const std::string& text, Diagnostics& faults) {
  using plan::Framework;
  if (text.empty()) return {};
  std::vector<Framework> of_all;
  std::vector<std::string_view> names, others;
  for (const Framework known : plan::kFrameworks) {
    const bool searched = plan::TraitsOf(known).searched_by_default;
    if (searched) of_all.push_back(known);
    names.emplace_back(plan::Name(known));
    if (!searched) others.emplace_back(plan::Name(known));
  }
  if (text == "all") return of_all;
  std::vector<Framework> frameworks;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    const auto* found = std::find_if(std::begin(plan::kFrameworks), std::end(plan::kFrameworks),
                                     [&](Framework known) { return word == plan::Name(known); });
    if (found != std::end(plan::kFrameworks)) {
      frameworks.push_back(*found);
    } else {
      faults.push_back(Fault("--framework", text,
                             fmt::format("there is no such framework: {}", Quoted(word)),
                             fmt::format("there are: {}; or all, which is all but {}",
                                         fmt::join(names, ", "), fmt::join(others, ", "))));
    }
  }
  return frameworks;
}

std::string SetOption(const std::string& key, const std::string& value) {
  return fmt::format("{}={}", key, value);
}

class PlanSearch {
 public:
  explicit PlanSearch(const PlanOptions& options)
      : options_(options), varied_(options_.scenario, options_.set, cache_), variants_([this] {
          return std::make_unique<scenario::Variants>(options_.scenario, options_.set, cache_);
        }) {}

  // Reads what all plans have in common. An outcome is the end.
  std::optional<::stepcast::cli::Outcome> Prepare() {
    const FilesRead files;
    Diagnostics faults;
    goal_ = ReadGoal(options_, faults);
    planner::SpaceOptions space_options;
    space_options.frameworks = ReadFrameworks(options_.framework, faults);
    space_options.nodes = options_.fewer_nodes || goal_.target == Target::kGpus;
    space_options.fix = options_.fix;
    space_options.has_key = [this](const std::string& key) { return varied_.HasKey(key); };
    for (const std::string& text : options_.vary) {
      auto axis = varied_.ReadAxis(text);
      if (axis) {
        space_options.vary.push_back(std::move(*axis));
      } else {
        faults.insert(faults.end(), axis.error().begin(), axis.error().end());
      }
    }
    if (!faults.empty()) return WrongInput(faults);
    auto base = scenario::Load(options_.scenario, options_.set, cache_);
    if (!base) return WrongInput(base.error());
    base_ = std::move(*base);
    faults = varied_.WrongValues(space_options.vary);
    const bool other_devices = std::any_of(
        space_options.vary.begin(), space_options.vary.end(), [](const planner::SweepAxis& axis) {
          return axis.key == "cluster" || axis.key.starts_with("cluster.topology");
        });
    const Bytes capacity = base_->cluster->device_memory();
    if (goal_.headroom >= capacity && !other_devices) {
      faults.push_back(Fault(
          "--headroom", options_.headroom,
          fmt::format("a device has {}: {}", FormatBytes(capacity), Quoted(options_.headroom)),
          "give less than that, or a part of it: '5%'"));
    }
    if (!faults.empty()) return WrongInput(faults);
    // By default as much stays free as the forecast may be off.
    if (options_.headroom.empty()) {
      std::vector<plan::Framework> frameworks = space_options.frameworks;
      if (frameworks.empty()) frameworks.push_back(base_->plan.data_parallel.framework);
      for (const plan::Framework framework : frameworks) {
        goal_.headroom_part =
            std::max(goal_.headroom_part, forecast::MemoryErrorOf(*base_, framework));
      }
    }
    auto space = PlanSpace::Around(*base_, space_options);
    if (!space) return WrongInput(space.error());
    space_ = std::move(*space);
    source_ = {.plans = space_->size(),
               .load = [this](std::int64_t plan) { return LoadPlan(plan); },
               .has_twin =
                   [this](std::int64_t plan) {
                     return space_->HasBefore(plan, "data_parallel.accumulate_unsharded", "false");
                   },
               .kind = [this](std::int64_t plan) { return space_->KindOf(plan); }};
    problem_ = planner::ProblemOf(source_);
    work_ = planner::WorkOf(problem_);
    files_ = files.digests();
    return std::nullopt;
  }

  // What bounds and forecasts depend on besides the settings of their plans: neither the goal nor
  // which plans there are.
  std::vector<planner::StoreFact> Facts() const { return RunFacts("plan", options_.set, files_); }
  // What ranks must agree on: they speak of plans by their numbers.
  std::string Fingerprint() const {
    std::string text = ToText(Facts());
    for (const planner::PlanPart& part : space_->parts()) {
      text += planner::ToText(part.fixed);
      for (const planner::SweepAxis& axis : part.axes) {
        text += fmt::format("{}={}\n", axis.key, fmt::join(axis.values, ","));
      }
    }
    return text;
  }

  std::string Work(const std::string& item) const { return work_(item); }

  // At rank 0.
  ::stepcast::cli::Outcome Run(planner::WorkerPool& pool) {
    AskedFile page;
    if (auto failed = page.Create(options_.report)) return *failed;
    if (auto fault = CheckEmit(options_.emit)) return *std::move(fault);
    KeptResults kept;
    if (auto failed = kept.Open(
            options_.store, [this] { return Facts(); }, "bounds and forecasts")) {
      return *failed;
    }
    const std::int64_t known = kept.store() == nullptr ? 0 : kept.store()->kept().load();
    planner::Answers answers(space_->size(), pool, kept.store(),
                             [this](std::int64_t plan) { return KeyOf(plan); });
    ::stepcast::cli::Outcome outcome = Decide(answers, page);
    outcome.messages += outcome.status == kFailed ? kept.HowToGoOn() : kept.WhatWasKnown(known);
    return outcome;
  }

 private:
  ::stepcast::cli::Outcome Decide(planner::Answers& answers, AskedFile& page) {
    const planner::SearchOptions search_options{.best = options_.best,
                                                .pareto = !options_.no_front,
                                                .threads = options_.threads,
                                                .kind = source_.kind,
                                                .progress = options_.progress};
    const auto found = planner::Search(answers, goal_, search_options);
    if (!found) return Failed(found.error());
    const planner::SearchResult& result = *found;

    report::PlanReport report;
    report.name = base_->name;
    report.goal = goal_;
    report.space = space_->size();
    report.result = &result;
    report.best = Rows(result, result.best);
    for (report::PlanRow& row : report.best) NameTies(result, row);
    report.pareto = Rows(result, result.pareto);
    report.nearest = Rows(result, result.nearest);
    if (options_.why > 0) {
      report.runners_up =
          Rows(result, planner::RunnersUp(result, goal_, options_.why, source_.kind));
    }
    if (!result.best.empty()) {
      auto sensitivity = planner::SensitivityOf(*space_, answers, goal_, search_options, result,
                                                problem_.screen, source_.load);
      if (!sensitivity) {
        const planner::SensitivityFault& fault = sensitivity.error();
        return fault.wrong_input.empty() ? Failed(fault.failure) : WrongInput(fault.wrong_input);
      }
      if (sensitivity->with_more_memory) {
        report::PlanRow row = Row(result, *sensitivity->with_more_memory);
        row.outcome = sensitivity->more_memory_outcome;
        report.with_more_memory = std::move(row);
      }
      report.sensitivity = std::move(*sensitivity);
    }
    report.notes = space_->notes();
    NoteFrameworksWithoutPlans(result, report.notes);
    report.seconds = stopwatch_.Seconds();
    if (auto failed = page.Write([&] {
          const auto name = [&](std::int64_t plan) { return NameOf(plan); };
          return report::PlanPage(
              report::ViewOf(report, AskedOf(options_.scenario, options_.set), name));
        })) {
      return *failed;
    }
    ::stepcast::cli::Outcome outcome;
    outcome.status = result.best.empty() ? kAnswerIsNo : kDone;
    outcome.output = options_.json  ? report::PlanJson(report)
                     : options_.csv ? report::PlanCsv(report)
                                    : report::PlanText(report);
    // The text has them at its head.
    if (options_.json || options_.csv) {
      for (const std::string& note : report.notes) outcome.messages += note + "\n";
    }
    outcome.messages += Warnings(*base_);
    if (!options_.emit.folder.empty()) {
      if (auto failure = EmitBest(result, outcome.messages)) return *std::move(failure);
    }
    return outcome;
  }

  std::optional<::stepcast::cli::Outcome> EmitBest(const planner::SearchResult& result,
                                                   std::string& messages) {
    if (result.best.empty()) {
      messages += "stepcast: no plan fits, so none is written\n";
      return std::nullopt;
    }
    std::vector<std::string> set = options_.set;
    for (std::string& option : OverridesOf(result.best.front())) set.push_back(std::move(option));
    const auto best = scenario::Load(options_.scenario, set, cache_);
    if (!best) return WrongInput(best.error());
    return EmitPlan(*best, options_.scenario, options_.emit, messages);
  }

  // What a store knows a plan by.
  std::string KeyOf(std::int64_t plan) const { return planner::ToText(space_->Settings(plan)); }

  // Frameworks of which no plan can exist, and why the first of their plans cannot.
  void NoteFrameworksWithoutPlans(const planner::SearchResult& result,
                                  std::vector<std::string>& notes) {
    struct Plans {
      std::int64_t first = 0, legal = 0;
    };
    std::vector<std::pair<std::string, Plans>> frameworks;
    for (const planner::PlanPart& part : space_->parts()) {
      std::int64_t legal = 0;
      for (std::int64_t plan = part.first; plan < part.first + part.plans; ++plan) {
        const planner::Verdict verdict = result.verdicts[static_cast<std::size_t>(plan)];
        legal += verdict == planner::Verdict::kIllegal ? 0 : 1;
      }
      const std::string name = plan::Name(part.framework);
      auto known = std::find_if(frameworks.begin(), frameworks.end(),
                                [&](const auto& entry) { return entry.first == name; });
      if (known == frameworks.end()) {
        known = frameworks.insert(frameworks.end(), {name, {part.first, 0}});
      }
      known->second.legal += legal;
    }
    if (frameworks.size() < 2) return;
    for (const auto& [name, plans] : frameworks) {
      if (plans.legal > 0) continue;
      const auto scenario = LoadPlan(plans.first);
      notes.push_back(
          fmt::format("{}: no plan can exist{}", name,
                      scenario ? "" : fmt::format(": {}", scenario.error().front().message)));
    }
  }

  // Settings that differ between the plan and its ties.
  void NameTies(const planner::SearchResult& result, report::PlanRow& row) const {
    const auto found = result.ties.find(row.plan);
    if (found == result.ties.end()) return;
    row.ties = static_cast<std::int64_t>(found->second.size());
    // A key that is left out has its default.
    const auto value_in = [](const Settings& settings, const std::string& key) {
      const auto setting = std::find_if(settings.begin(), settings.end(),
                                        [&](const auto& one) { return one.first == key; });
      return setting == settings.end() ? std::string(kTakenOut) : setting->second;
    };
    std::vector<Settings> alike;
    std::vector<std::string> keys;
    const auto note_keys = [&](const Settings& settings) {
      for (const auto& [key, value] : settings) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
      }
    };
    note_keys(row.settings);
    for (const std::int64_t plan : found->second) {
      alike.push_back(space_->Settings(plan));
      note_keys(alike.back());
    }
    for (const std::string& key : keys) {
      std::vector<std::string> values = {value_in(row.settings, key)};
      for (const Settings& settings : alike) {
        std::string value = value_in(settings, key);
        if (std::find(values.begin(), values.end(), value) == values.end()) {
          values.push_back(std::move(value));
        }
      }
      if (values.size() > 1) row.no_difference.emplace_back(key, std::move(values));
    }
  }

  // The settings that make the plan; those that take a key out say nothing.
  std::string NameOf(std::int64_t plan) const {
    std::string name;
    for (const auto& [key, value] : space_->Settings(plan)) {
      if (value == "null") continue;
      name +=
          fmt::format("{}{} = {}", name.empty() ? "" : ", ", key.substr(key.rfind('.') + 1), value);
    }
    return name;
  }

  std::vector<std::string> OverridesOf(std::int64_t plan) const {
    std::vector<std::string> overrides;
    for (const auto& [key, value] : space_->Settings(plan)) {
      overrides.push_back(SetOption(key, value));
    }
    return overrides;
  }

  // But for what it resolves to.
  Result<scenario::Scenario> LoadPlan(std::int64_t plan) {
    const auto scenario = variants_.Own().Load(OverridesOf(plan));
    if (!scenario) return tl::unexpected(scenario.error());
    return **scenario;
  }

  report::PlanRow Row(const planner::SearchResult& result, std::int64_t plan) {
    const auto at = static_cast<std::size_t>(plan);
    report::PlanRow row;
    row.plan = plan;
    row.settings = space_->Settings(plan);
    if (const auto scenario = LoadPlan(plan)) row.values = scenario->plan;
    row.facts = result.facts[at];
    row.verdict = result.verdicts[at];
    row.bound = result.bounds[at];
    const auto outcome = result.outcomes.find(plan);
    row.simulated = outcome != result.outcomes.end();
    if (row.simulated) row.outcome = outcome->second;
    return row;
  }

  std::vector<report::PlanRow> Rows(const planner::SearchResult& result,
                                    const std::vector<std::int64_t>& plans) {
    std::vector<report::PlanRow> rows;
    for (const std::int64_t plan : plans) rows.push_back(Row(result, plan));
    return rows;
  }

  const PlanOptions& options_;
  const Stopwatch stopwatch_;
  scenario::InputCache cache_;
  Varied varied_;
  planner::PerThread<scenario::Variants> variants_;
  Goal goal_;
  std::optional<scenario::Scenario> base_;
  std::optional<PlanSpace> space_;
  planner::PlanSource source_;
  planner::SearchProblem problem_;
  planner::Work work_;
  std::map<std::string, std::string> files_;
};

}  // namespace

Outcome Plan(const PlanOptions& options) {
  const auto search = std::make_shared<PlanSearch>(options);
  return RunSpread({
      .scenario = options.scenario,
      .threads = options.threads,
      .prepare = [search] { return search->Prepare(); },
      .fingerprint = [search] { return search->Fingerprint(); },
      .work = [search](const std::string& item) { return search->Work(item); },
      .run = [search](planner::WorkerPool& pool) { return search->Run(pool); },
  });
}

}  // namespace stepcast::cli
