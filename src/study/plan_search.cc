#include "src/study/plan_search.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/files_read.h"
#include "src/base/quantity.h"
#include "src/forecast/forecast.h"
#include "src/forecast/host_costs.h"
#include "src/forecast/memory_summary.h"
#include "src/planner/answers.h"
#include "src/planner/evaluations.h"
#include "src/planner/per_thread.h"
#include "src/planner/plan_problem.h"
#include "src/planner/plan_space.h"
#include "src/planner/sensitivity.h"
#include "src/planner/sweep_grid.h"
#include "src/study/run_facts.h"
#include "src/study/varied.h"

namespace stepcast::study {
namespace {

std::string SetOption(const std::string& key, const std::string& value) {
  return fmt::format("{}={}", key, value);
}

}  // namespace

class PlanSearch::Impl {
 public:
  explicit Impl(PlanQuestion question)
      : question_(std::move(question)),
        varied_(question_.scenario, question_.set, cache_),
        variants_([this] {
          return std::make_unique<scenario::Variants>(question_.scenario, question_.set, cache_);
        }) {}

  Result<void> Prepare() {
    const FilesRead files;
    Diagnostics faults;
    goal_ = ReadGoal(question_, faults);
    planner::SpaceOptions space_options;
    space_options.frameworks = ReadFrameworks(question_.framework, faults);
    space_options.nodes = question_.fewer_nodes || goal_.target == planner::Target::kGpus;
    space_options.fix = question_.fix;
    space_options.has_key = [this](const std::string& key) { return varied_.HasKey(key); };
    for (const std::string& text : question_.vary) {
      auto axis = varied_.ReadAxis(text);
      if (axis) {
        space_options.vary.push_back(std::move(*axis));
      } else {
        faults.insert(faults.end(), axis.error().begin(), axis.error().end());
      }
    }
    if (!faults.empty()) return tl::unexpected(std::move(faults));
    auto base = scenario::Load(question_.scenario, question_.set, cache_);
    if (!base) return tl::unexpected(std::move(base.error()));
    base_ = std::move(*base);
    faults = varied_.WrongValues(space_options.vary);
    const bool other_devices = std::any_of(
        space_options.vary.begin(), space_options.vary.end(), [](const planner::SweepAxis& axis) {
          return axis.key == "cluster" || axis.key.starts_with("cluster.topology");
        });
    const Bytes capacity = base_->cluster->device_memory();
    if (goal_.headroom >= capacity && !other_devices) {
      faults.push_back(WrongOption(
          "--headroom", question_.headroom,
          fmt::format("a device has {}: {}", FormatBytes(capacity), Quoted(question_.headroom)),
          "give less than that, or a part of it: '5%'"));
    }
    if (!faults.empty()) return tl::unexpected(std::move(faults));
    // By default as much stays free as the forecast may be off.
    if (question_.headroom.empty()) {
      std::vector<plan::Framework> frameworks = space_options.frameworks;
      if (frameworks.empty()) frameworks.push_back(base_->plan.data_parallel.framework);
      for (const plan::Framework framework : frameworks) {
        goal_.headroom_part =
            std::max(goal_.headroom_part, forecast::MemoryErrorOf(*base_, framework));
      }
    }
    auto space = planner::PlanSpace::Around(*base_, space_options);
    if (!space) return tl::unexpected(std::move(space.error()));
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
    return {};
  }

  // What bounds and forecasts depend on besides the settings of their plans: neither the goal nor
  // which plans there are.
  std::vector<planner::StoreFact> Facts(const std::string& code) const {
    return RunFacts("plan", code, question_.set, files_);
  }
  // What ranks must agree on: they speak of plans by their numbers.
  std::string Fingerprint(const std::string& code) const {
    std::string text = ToText(Facts(code));
    for (const planner::PlanPart& part : space_->parts()) {
      text += planner::ToText(part.fixed);
      for (const planner::SweepAxis& axis : part.axes) {
        text += fmt::format("{}={}\n", axis.key, fmt::join(axis.values, ","));
      }
    }
    return text;
  }

  std::string Work(const std::string& item) const { return work_(item); }

  Answer<report::PlanReport> Run(planner::WorkerPool& pool, planner::ResultStore* store) {
    planner::Answers answers(space_->size(), pool, store,
                             [this](std::int64_t plan) { return KeyOf(plan); });
    const planner::SearchOptions search_options{.best = question_.best,
                                                .pareto = !question_.no_front,
                                                .threads = question_.threads,
                                                .kind = source_.kind,
                                                .progress = question_.progress};
    auto found = planner::Search(answers, goal_, search_options);
    if (!found) return Failed(found.error());
    result_ = *std::move(found);
    const planner::SearchResult& result = *result_;

    report::PlanReport report;
    report.name = base_->name;
    report.goal = goal_;
    report.space = space_->size();
    report.result = &result;
    report.best = Rows(result, result.best);
    for (report::PlanRow& row : report.best) NameTies(result, row);
    report.pareto = Rows(result, result.pareto);
    report.nearest = Rows(result, result.nearest);
    if (question_.why > 0) {
      report.runners_up =
          Rows(result, planner::RunnersUp(result, goal_, question_.why, source_.kind));
    }
    if (!result.best.empty()) {
      auto sensitivity = planner::SensitivityOf(*space_, answers, goal_, search_options, result,
                                                problem_.screen, source_.load);
      if (!sensitivity) {
        const planner::SensitivityFault& fault = sensitivity.error();
        return tl::unexpected(Failure{fault.wrong_input, fault.failure});
      }
      if (sensitivity->with_more_memory) {
        report::PlanRow row = Row(result, *sensitivity->with_more_memory);
        row.outcome = sensitivity->more_memory_outcome;
        report.with_more_memory = std::move(row);
      }
      report.sensitivity = std::move(*sensitivity);
    }
    report.notes = space_->notes();
    report.held = space_->held();
    NoteFrameworksWithoutPlans(result, report.notes);
    NoteUnknownHosts(result, report.notes);
    return report;
  }

  const scenario::Scenario& base() const { return *base_; }
  Result<scenario::Scenario> ScenarioOf(std::int64_t plan) {
    std::vector<std::string> set = question_.set;
    for (std::string& option : OverridesOf(plan)) set.push_back(std::move(option));
    return scenario::Load(question_.scenario, set, cache_);
  }
  std::string NameOf(std::int64_t plan) const {
    std::string name;
    for (const auto& [key, value] : space_->Settings(plan)) {
      if (value == planner::kDefaultValue) continue;
      name +=
          fmt::format("{}{} = {}", name.empty() ? "" : ", ", key.substr(key.rfind('.') + 1), value);
    }
    return name;
  }

 private:
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

  // Frameworks of the best plans whose steps may wait for hosts longer than they are forecast to.
  void NoteUnknownHosts(const planner::SearchResult& result, std::vector<std::string>& notes) {
    std::set<plan::Framework> seen;
    for (std::size_t i = 0; i < result.best.size(); ++i) {
      const auto scenario = LoadPlan(result.best[i]);
      if (!scenario || !seen.insert(scenario->plan.data_parallel.framework).second) continue;
      if (const auto unknown = forecast::UnknownHostOf(*scenario)) {
        notes.push_back(fmt::format("host of plan {}: {}", i + 1, forecast::Sentence(*unknown)));
      }
    }
  }

  // Which settings differ between the plan and its ties.
  void NameTies(const planner::SearchResult& result, report::PlanRow& row) const {
    const auto found = result.ties.find(row.plan);
    if (found == result.ties.end()) return;
    row.ties = static_cast<std::int64_t>(found->second.size());
    // A key that is left out has its default.
    const auto value_in = [](const planner::Settings& settings, const std::string& key) {
      const auto setting = std::find_if(settings.begin(), settings.end(),
                                        [&](const auto& one) { return one.first == key; });
      return setting == settings.end() ? std::string(planner::kDefaultValue) : setting->second;
    };
    std::vector<planner::Settings> alike;
    std::vector<std::string> keys;
    const auto note_keys = [&](const planner::Settings& settings) {
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
      for (const planner::Settings& settings : alike) {
        std::string value = value_in(settings, key);
        if (std::find(values.begin(), values.end(), value) == values.end()) {
          values.push_back(std::move(value));
        }
      }
      if (values.size() > 1) row.no_difference.emplace_back(key, std::move(values));
    }
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

  const PlanQuestion question_;
  scenario::InputCache cache_;
  Varied varied_;
  planner::PerThread<scenario::Variants> variants_;
  planner::Goal goal_;
  std::optional<scenario::Scenario> base_;
  std::optional<planner::PlanSpace> space_;
  planner::PlanSource source_;
  planner::SearchProblem problem_;
  planner::Work work_;
  std::map<std::string, std::string> files_;
  std::optional<planner::SearchResult> result_;
};

PlanSearch::PlanSearch(PlanQuestion question)
    : impl_(std::make_unique<Impl>(std::move(question))) {}
PlanSearch::~PlanSearch() = default;
Result<void> PlanSearch::Prepare() { return impl_->Prepare(); }
std::vector<planner::StoreFact> PlanSearch::Facts(const std::string& code) const {
  return impl_->Facts(code);
}
std::string PlanSearch::Fingerprint(const std::string& code) const {
  return impl_->Fingerprint(code);
}
std::string PlanSearch::Work(const std::string& item) const { return impl_->Work(item); }
Answer<report::PlanReport> PlanSearch::Run(planner::WorkerPool& pool, planner::ResultStore* store) {
  return impl_->Run(pool, store);
}
const scenario::Scenario& PlanSearch::base() const { return impl_->base(); }
Result<scenario::Scenario> PlanSearch::ScenarioOf(std::int64_t plan) {
  return impl_->ScenarioOf(plan);
}
std::string PlanSearch::NameOf(std::int64_t plan) const { return impl_->NameOf(plan); }

}  // namespace stepcast::study
