#include "src/study/plan_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/files.h"
#include "src/base/quantity.h"
#include "src/forecast/corrections.h"
#include "src/forecast/long_run.h"
#include "src/forecast/memory_summary.h"
#include "src/lowering/execution_limits.h"
#include "src/planner/answers.h"
#include "src/planner/per_thread.h"
#include "src/planner/plan_space.h"
#include "src/planner/search_problem.h"
#include "src/planner/search_table.h"
#include "src/planner/sensitivity.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/load.h"
#include "src/scenario/memory_document.h"
#include "src/scenario/resolved_scenario.h"
#include "src/scenario/scenario_checks.h"
#include "src/study/plan_base.h"
#include "src/study/plan_goal.h"
#include "src/study/run_facts.h"
#include "src/study/run_time_study.h"
#include "src/study/stage_memory.h"
#include "src/study/varied.h"

namespace stepcast::study {
namespace {

class Search final : public PlanSearch {
  using Clock = std::chrono::steady_clock;

 public:
  explicit Search(PlanQuestion question)
      : question_(std::move(question)),
        set_(question_.set),
        varied_(question_.scenario, set_, cache_),
        variants_([this] {
          return std::make_unique<scenario::Variants>(question_.scenario, set_, cache_);
        }) {}

  Result<void> Prepare() override {
    const FilesRead files;
    Diagnostics faults;
    planner::SpaceOptions space_options;
    ReadQuestion(space_options, faults);
    if (!faults.empty()) return tl::unexpected(std::move(faults));
    auto base = LoadPlanBase(question_.scenario, question_.set, cache_);
    if (!base) return tl::unexpected(std::move(base.error()));
    set_ = base->set;
    assumed_ = std::move(base->assumed);
    refused_ = std::move(base->refused);
    base_ = std::move(base->scenario);
    for (const std::string& text : question_.vary) {
      auto axis = varied_.ReadAxis(text);
      if (axis) {
        space_options.vary.push_back(std::move(*axis));
      } else {
        faults.insert(faults.end(), axis.error().begin(), axis.error().end());
      }
    }
    if (!faults.empty()) return tl::unexpected(std::move(faults));
    const bool varies_lengths = std::any_of(
        space_options.vary.begin(), space_options.vary.end(),
        [](const planner::SweepAxis& axis) { return axis.key.starts_with("training.lengths"); });
    if (base_->plan.training.has_padded_lengths() || varies_lengths) {
      return tl::unexpected(forecast::SeveralLengths(
          *base_,
          "the search supports only steps whose micro-batches have the same sequence length"));
    }
    space_options.frameworks = ReadFrameworks(FrameworksAsked(space_options), faults);
    if (!faults.empty()) return tl::unexpected(std::move(faults));
    faults = varied_.WrongValues(space_options.vary);
    CheckHeadroom(space_options, faults);
    CheckPower(faults);
    if (!faults.empty()) return tl::unexpected(std::move(faults));
    if (question_.headroom.empty()) TakeDefaultHeadroom(space_options);
    CountFailures();
    space_options.own = AsksForOwn(space_options);
    scenario::Variants variants(question_.scenario, set_, cache_);
    space_options.refused_by = [&](plan::Framework framework, int stage) {
      return RefusedBy(framework, stage, *base_, variants);
    };
    auto space = planner::PlanSpace::Around(*base_, space_options);
    if (!space) return tl::unexpected(std::move(space.error()));
    space_ = std::move(*space);
    const std::vector<planner::PlanPart>& parts = space_->parts();
    if (std::none_of(parts.begin(), parts.end(),
                     [this](const planner::PlanPart& part) { return IsAskedFor(part); })) {
      std::vector<std::string> varied;
      for (const auto& [row, value] : why_.layout) {
        varied.push_back(fmt::format("--vary {}={}", row->key, value));
      }
      return tl::unexpected(Diagnostics{WrongOption(
          "--why", why_.layout_text,
          fmt::format("no plan in the search has the layout: {}", Quoted(why_.layout_text)),
          fmt::format("choose another layout; to see the rule that excludes this layout, replace "
                      "--why by {}",
                      fmt::join(varied, " ")))});
    }
    source_ = Source();
    problem_ = planner::ProblemOf(source_);
    work_ = planner::WorkOf(problem_);
    files_ = files.digests();
    return {};
  }

  // The inputs of bounds and forecasts, apart from the settings of plans. They include neither the
  // goal nor the set of plans.
  std::vector<planner::StoreFact> Facts(const std::string& code) const override {
    return RunFacts("plan", code, question_.scenario, set_, files_);
  }
  // Returns a text that must be equal on all ranks, because ranks refer to plans by number.
  std::string Fingerprint(const std::string& code) const override {
    std::string text = ToText(Facts(code));
    for (const planner::PlanPart& part : space_->parts()) {
      text += planner::ToText(space_->Settings(part.first));
      for (const planner::SweepAxis& axis : part.choices->axes) {
        text += fmt::format("{}={}\n", axis.key, fmt::join(axis.values, ","));
      }
    }
    return text;
  }

  // Without --framework, all frameworks searched by default, unless the scenario's own is not among
  // them.
  std::string FrameworksAsked(const planner::SpaceOptions& options) const {
    constexpr const char* kFramework = "data_parallel.framework";
    const bool varies =
        std::any_of(options.vary.begin(), options.vary.end(),
                    [](const planner::SweepAxis& axis) { return axis.key == kFramework; });
    const bool fixed =
        std::find(options.fix.begin(), options.fix.end(), kFramework) != options.fix.end();
    const plan::Framework own = base_->plan.data_parallel.framework;
    if (!question_.framework.empty() || varies || fixed ||
        !plan::TraitsOf(own).searched_by_default) {
      return question_.framework;
    }
    return "all";
  }

  std::string Work(const std::string& item) const override {
    const StopScope scope(stop_);
    return work_(item);
  }

  bool FindsFront() const { return IsSought(question_.front, question_.no_front); }
  bool FindsSensitivity() const {
    return IsSought(question_.sensitivity, question_.no_sensitivity);
  }
  bool IsSought(bool asked_for, bool left_out) const {
    return asked_for || (!left_out && space_->size() <= kMostPlansWithAll);
  }

  Answer<report::PlanReport> Run(planner::WorkerPool& pool, planner::ResultStore* store) override {
    planner::Answers answers(problem_, pool, store,
                             [this](std::int64_t plan) { return KeyOf(plan); });
    // Bounds get half of the search's time, a search for --why half of all, and the details of rows
    // the rest.
    constexpr double kPartForBounds = 0.5;
    double searching = 1 - kPartForDetails;
    if (!why_.layout.empty()) searching /= 2;
    report::PlanReport report;
    SayOwn(report);  // whatever its time: only an interrupt ends it
    if (within_) stop_.RequestAt(TimeOf(1));
    enough_ = Enough(searching);
    const planner::SearchOptions search_options{
        .best = question_.best > 0 ? question_.best : kBest,
        .exact = question_.best > 0 || space_->size() <= kMostPlansWithAll ? 0 : 1,
        .pareto = FindsFront(),
        .threads = question_.threads,
        .kind = source_.kind,
        .group = [this](std::int64_t plan) { return space_->GroupOf(plan); },
        .groups = static_cast<int>(space_->groups().size()),
        .neighbours =
            [this](std::int64_t plan) {
              std::vector<std::int64_t> plans;
              for (const auto& neighbour : space_->NeighboursOf(plan))
                plans.push_back(neighbour.plan);
              return plans;
            },
        .own = space_->own(),
        .own_outcome = report.own ? std::optional(report.own->outcome) : std::nullopt,
        .enough = enough_,
        .anytime = within_.has_value(),
        .bounded_enough = within_ ? Enough(kPartForBounds * searching) : nullptr,
        .progress = question_.progress};
    auto found = planner::Search(answers, goal_, search_options);
    if (!found) return Failed(found.error());
    result_ = *std::move(found);
    const planner::SearchResult& result = *result_;

    report.name = base_->name;
    report.goal = goal_;
    report.space = space_->size();
    report.result = &result;
    SayWhatWasTried(report);
    report.kinds = Kinds(result);
    for (report::KindRow& kind : report.kinds) {
      if (kind.fits) SayWhereTimeGoes(kind.row);
    }
    if (!why_.layout.empty()) {
      if (auto failed = AnswerLayout(answers, search_options, report)) return Failed(*failed);
    }
    if (auto failed = AnswerSizes(answers, search_options, report)) return Failed(*failed);
    report.best = Rows(result, result.best);
    if (!report.best.empty()) SayWhereTimeGoes(report.best.front());
    for (report::PlanRow& row : report.best) NameTies(result, row);
    report.pareto = Rows(result, result.pareto);
    SayRisky(report);
    report.file = scenario::MemoryDocument::Find(question_.scenario) ? "" : question_.scenario;
    report.set = set_;
    if (!result.best.empty()) SayHowToExecute(result.best.front(), report);
    report.nearest = Rows(result, result.nearest);
    SayRanges(report);
    if (why_.runners_up > 0) {
      report.runners_up =
          Rows(result, planner::RunnersUp(result, goal_, why_.runners_up, source_.kind));
    }
    if (result.best.empty()) FindWhatFits(report);
    const bool in_time = !stop_.requested() && (!within_ || !search_options.bounded_enough());
    if (!result.best.empty() && FindsSensitivity() && result.proved && in_time) {
      auto sensitivity =
          planner::SensitivityOf(*space_, answers, goal_, search_options, result, problem_.screen,
                                 [this](std::int64_t plan) { return LoadPlan(plan); });
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
    report.interrupted = interrupted();
    report.notes = space_->notes();
    if (!assumed_.empty()) {
      report.notes.insert(
          report.notes.begin(),
          fmt::format(
              "the scenario has no training settings; the following settings are assumed: {}",
              fmt::join(assumed_, ", ")));
    }
    for (const std::string& why : refused_) {
      report.notes.insert(report.notes.begin(),
                          fmt::format("the plan in the scenario is illegal: {}", why));
    }
    if (CountsEnergy() && forecast::PowerOf(*base_).at_most) {
      report.notes.emplace_back(
          "the calibration profile has no power model, so the energy is an upper bound that "
          "assumes the power limit of the board");
    }
    NoteWhatWasLeftOut(report.notes);
    report.held = space_->held();
    NoteFrameworksWithoutPlans(result, report.notes);
    NoteRuleOfMost(result, report.notes);
    NoteUnknownHosts(result, report.notes);
    return report;
  }

  std::int64_t plans() const override { return space_->size(); }
  StopFlag& stop() override { return stop_; }
  const scenario::Scenario& base() const override { return *base_; }
  Result<scenario::Scenario> ScenarioOf(std::int64_t plan) override {
    std::vector<std::string> set = set_;
    for (std::string& option : Overrides(space_->Settings(plan))) set.push_back(std::move(option));
    return scenario::Load(question_.scenario, set, cache_);
  }
  std::string NameOf(std::int64_t plan) const override {
    std::string name;
    for (const auto& [key, value] : space_->Settings(plan)) {
      if (value == planner::kDefaultValue) continue;
      name +=
          fmt::format("{}{} = {}", name.empty() ? "" : ", ", key.substr(key.rfind('.') + 1), value);
    }
    return name;
  }

 private:
  void ReadQuestion(planner::SpaceOptions& space_options, Diagnostics& faults) {
    goal_ = ReadGoal(question_, faults);
    ReadFrameworks(question_.framework, faults);
    within_ = ReadWithin(question_.within, faults);
    why_ = ReadWhy(question_.why, faults);
    space_options.kinds = ReadKinds(question_.only, faults);
    space_options.nodes = question_.fewer_nodes || goal_.target == planner::Target::kGpus;
    space_options.fix = question_.fix;
    space_options.value_of = [this, known = std::map<std::string, std::optional<std::string>>()](
                                 const std::string& key) mutable {
      const auto found = known.find(key);  // a query of the scenario takes a millisecond
      if (found != known.end()) return found->second;
      return known.emplace(key, varied_.ValueOf(key)).first->second;
    };
  }

  // Whether the scenario's own plan is in the requested space.
  bool AsksForOwn(const planner::SpaceOptions& options) {
    if (!question_.try_own || !assumed_.empty() || !refused_.empty()) return false;
    const plan::Framework own = base_->plan.data_parallel.framework;
    const auto& frameworks = options.frameworks;
    if (!frameworks.empty() &&
        std::find(frameworks.begin(), frameworks.end(), own) == frameworks.end()) {
      return false;
    }
    for (const std::string_view kind : planner::kParallelKinds) {
      const bool allowed =
          std::find(options.kinds.begin(), options.kinds.end(), kind) != options.kinds.end();
      if (!allowed && plan::DegreeOf(base_->plan.parallelism, kind) > 1) return false;
    }
    // A value of a varying key that leaves the scenario unchanged.
    const std::string resolved = scenario::ToJson(base_->resolved);
    return std::all_of(
        options.vary.begin(), options.vary.end(), [&](const planner::SweepAxis& axis) {
          return std::any_of(axis.values.begin(), axis.values.end(), [&](const std::string& value) {
            std::vector<std::string> set = set_;
            set.push_back(Override(axis.key, value));
            const auto same = scenario::Load(question_.scenario, set, cache_);
            return same && scenario::ToJson(same->resolved) == resolved;
          });
        });
  }

  void CheckHeadroom(const planner::SpaceOptions& space_options, Diagnostics& faults) const {
    const bool other_devices = std::any_of(
        space_options.vary.begin(), space_options.vary.end(), [](const planner::SweepAxis& axis) {
          return axis.key == "cluster" || axis.key.starts_with("cluster.topology");
        });
    const Bytes capacity = base_->cluster->device_memory();
    if (goal_.headroom >= capacity && !other_devices) {
      faults.push_back(WrongOption(
          "--headroom", question_.headroom,
          fmt::format("the headroom must be smaller than the memory of a device ({}), but is {}",
                      FormatBytes(capacity), Quoted(question_.headroom)),
          "give --headroom a value smaller than the memory of a device, or a percentage such as "
          "'5%'"));
    }
  }

  bool CountsEnergy() const { return goal_.target == planner::Target::kEnergy; }

  void CheckPower(Diagnostics& faults) const {
    if (!CountsEnergy() || forecast::PowerOf(*base_).computing > 0) return;
    faults.push_back(WrongOption("--target", question_.target, "the power of the GPU is unknown",
                                 "set power_limit_watts in the GPU's file, or kernels.power in the "
                                 "calibration profile"));
  }

  // Targets of whole runs count failures, unless the availability is given.
  void CountFailures() {
    const bool whole_run = goal_.target == planner::Target::kDays ||
                           goal_.target == planner::Target::kCost || CountsEnergy();
    if (whole_run && goal_.training.tokens > 0 && !goal_.training.availability) {
      goal_.training.effective = EffectiveTraining(*base_);
    }
    if (CountsEnergy()) goal_.training.pue = forecast::kPue;
  }

  // The default headroom: the error of the forecast.
  void TakeDefaultHeadroom(const planner::SpaceOptions& space_options) {
    std::vector<plan::Framework> frameworks = space_options.frameworks;
    if (frameworks.empty()) frameworks.push_back(base_->plan.data_parallel.framework);
    for (const plan::Framework framework : frameworks) {
      goal_.headroom_part =
          std::max(goal_.headroom_part, forecast::MemoryErrorOf(*base_, framework));
    }
  }

  planner::PlanSource Source() {
    return {.plans = space_->size(),
            .families = space_->families(),
            .load = [this](std::int64_t plan) { return Load(space_->Settings(plan)); },
            .load_family = [this](std::int64_t plan) { return Load(space_->FamilySettings(plan)); },
            .has_twin =
                [this](std::int64_t plan) {
                  return space_->HasBefore(plan, "data_parallel.accumulate_unsharded", "false");
                },
            .kind = [this](std::int64_t plan) { return space_->KindOf(plan); },
            .energy = CountsEnergy(),
            .same_as_own = space_->own() < 0 ? nullptr : SameAsOwn()};
  }

  std::function<bool(const scenario::Scenario&)> SameAsOwn() const {
    return [this](const scenario::Scenario& other) {
      return other.plan == base_->plan && other.model == base_->model &&
             other.cluster->devices() == base_->cluster->devices();
    };
  }

  // When this fraction of the question's time limit has passed since its beginning.
  Clock::time_point TimeOf(double part) const {
    return begin_ + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(part * *within_));
  }

  // Whether this fraction of the time has passed, or the search is to stop.
  std::function<bool()> Enough(double part) const {
    if (!within_) return [this] { return stop_.requested(); };
    return [this, end = TimeOf(part)] { return stop_.requested() || Clock::now() >= end; };
  }

  // Whether a stop was requested before the question's time limit.
  bool interrupted() const { return stop_.requested() && (!within_ || Clock::now() < TimeOf(1)); }

  // Adds the scenario's own plan, with a full forecast.
  void SayOwn(report::PlanReport& report) {
    if (!refused_.empty() || !assumed_.empty()) return;
    report::PlanRow row;
    row.plan = kOwn;
    row.values = base_->plan;
    row.facts = planner::FactsOf(*base_);
    const auto forecast = Forecast(*base_);
    if (!forecast) return;
    Detail(*forecast, row);
    row.outcome = planner::OutcomeOf(*base_, *forecast);
    if (space_->own() == kOwn) detailed_.emplace(kOwn, row);
    report.own = std::move(row);
  }

  // A forecast with the time breakdown; none if it fails, or if the search is to stop.
  std::optional<forecast::Forecast> Forecast(const scenario::Scenario& scenario) {
    const StopScope scope(stop_);
    try {
      auto figures = forecaster_.Evaluate(scenario, forecast::Detail::kTimes);
      if (figures) return *std::move(figures);
    } catch (const Stopped&) {
      forecaster_ = {};  // its caches may be half filled
    }
    return std::nullopt;
  }

  // What makes the nearest plan fit, if it lacks memory, unless the search was to end in time.
  void FindWhatFits(report::PlanReport& report) {
    if (report.nearest.empty() || within_ || stop_.requested()) return;
    const report::PlanRow& nearest = report.nearest.front();
    if (IsSafe(nearest.outcome)) return;  // it misses the deadline or the headroom
    std::vector<std::string> set = set_;
    for (std::string& option : Overrides(nearest.settings)) set.push_back(std::move(option));
    report.would_fit = SettingsThatFit(question_.scenario, set, cache_);
  }

  // Adds a plan that is faster than the best one but may not fit.
  void SayRisky(report::PlanReport& report) {
    if (report.best.empty()) return;
    const planner::Outcome& best = report.best.front().outcome;
    if (!IsSafe(best)) return;
    std::optional<std::int64_t> fastest;
    for (const auto& [plan, outcome] : result_->outcomes) {
      const planner::PlanFacts& facts = result_->states.FactsOf(plan);
      if (IsSafe(outcome) || facts.gpus != report.best.front().facts.gpus ||
          !Eligible(goal_, facts, outcome) ||
          outcome.tokens_per_second_per_gpu <= best.tokens_per_second_per_gpu) {
        continue;
      }
      if (!fastest || outcome.tokens_per_second_per_gpu >
                          result_->outcomes.at(*fastest).tokens_per_second_per_gpu) {
        fastest = plan;
      }
    }
    if (fastest) report.risky = Row(*result_, *fastest);
  }

  // Whether the part's plans have the layout of --why.
  bool IsAskedFor(const planner::PlanPart& part) const {
    return std::all_of(why_.layout.begin(), why_.layout.end(), [&](const auto& asked) {
      planner::Layout same = part.layout;
      return asked.first->Take(same, asked.second) && same == part.layout;
    });
  }

  // Whether the scenario fixes the setting.
  bool IsHeld(std::string_view key) const {
    const auto& held = space_->held();
    return std::any_of(held.begin(), held.end(), [key](const auto& one) { return one.key == key; });
  }

  // Describes what was tried and what was not: the degrees of parallelism, and the settings.
  void SayWhatWasTried(report::PlanReport& report) const {
    std::vector<std::string> frameworks, words;
    std::map<std::string, std::set<std::int64_t>> degrees;
    for (const planner::PlanPart& part : space_->parts()) {
      const std::string framework = plan::Name(part.framework);
      if (std::find(frameworks.begin(), frameworks.end(), framework) == frameworks.end()) {
        frameworks.push_back(framework);
      }
      const planner::Layout& layout = part.layout;
      degrees["tensor"].insert(layout.tensor);
      degrees["pipeline"].insert(layout.pipeline);
      degrees["virtual stages"].insert(layout.virtual_stages);
      degrees["context"].insert(layout.context);
      degrees["expert"].insert(layout.expert);
    }
    for (const char* name : {"tensor", "pipeline", "virtual stages", "context", "expert"}) {
      const std::set<std::int64_t>& values = degrees[name];
      if (values.size() < 2 && *values.begin() == 1) continue;
      constexpr std::size_t kMost = 5;
      words.push_back(values.size() > kMost
                          ? fmt::format("{} {} to {}", name, *values.begin(), *values.rbegin())
                          : fmt::format("{} {}", name, fmt::join(values, " or ")));
    }
    std::string text = fmt::format("{}; {}", fmt::join(frameworks, ", "),
                                   words.empty() ? std::string("data parallelism only")
                                                 : fmt::format("{}", fmt::join(words, ", ")));
    const std::vector<std::string> settings = VariedSettings();
    if (!settings.empty()) text += fmt::format("; {}", fmt::join(settings, ", "));
    report.tried = std::move(text);
    if (degrees["tensor"].size() > 1) {
      report.not_tried.emplace_back("tensor parallelism across nodes");
    }
    if (degrees["context"].size() > 1) {
      report.not_tried.push_back(fmt::format(
          "context parallelism with fewer than {} tokens per rank", planner::kLeastContextTokens));
    }
    if (degrees["pipeline"].size() > 1)
      report.not_tried.emplace_back("explicit numbers of layers per stage");
    const auto varies = [&settings](const char* key) {
      return std::find(settings.begin(), settings.end(), key) != settings.end();
    };
    std::set<std::string> not_compiled;
    for (const planner::PlanPart& part : space_->parts()) {
      constexpr const char* kCompile = "training.compile";
      if (base_->model->is_layer_list() || IsHeld(kCompile) ||
          planner::FindSearchRow(kCompile, part.framework, part.stage) != nullptr) {
        continue;
      }
      not_compiled.insert(fmt::format("{} with {}", kCompile, plan::Name(part.framework)));
    }
    report.not_tried.insert(report.not_tried.end(), not_compiled.begin(), not_compiled.end());
    if (!varies("attention")) report.not_tried.emplace_back("other attention kernels");
    if (scenario::LegalityFactsOf(*base_).experts > 0 && !varies("dispatcher")) {
      report.not_tried.emplace_back("other dispatchers of experts");
    }
    for (const char* name : {"tensor", "pipeline", "context"}) {
      if (degrees[name] == std::set<std::int64_t>{1}) {
        report.not_tried.push_back(fmt::format("{} parallelism", name));
      }
    }
  }

  // Settings within a layout that differ between plans, in table order.
  std::vector<std::string> VariedSettings() const {
    std::set<std::string> several;
    std::set<const planner::PlanChoices*> seen;
    for (const planner::PlanPart& part : space_->parts()) {
      if (!seen.insert(part.choices.get()).second) continue;
      for (const planner::SweepAxis& axis : part.choices->axes) {
        if (axis.values.size() > 1) several.insert(axis.key);
      }
    }
    std::vector<std::string> names;
    for (const planner::SearchRow& row : planner::SearchTable()) {
      if (several.erase(row.key) > 0) {
        names.emplace_back(
            std::string_view(row.key).substr(std::string_view(row.key).rfind('.') + 1));
      }
    }
    for (const std::string& other : several) names.push_back(other);
    return names;
  }

  void SayHowToExecute(std::int64_t plan, report::PlanReport& report) {
    const auto scenario = LoadPlan(plan);
    if (!scenario) return;
    const auto& cluster = *scenario->cluster;
    report::ExecutionAnswer& execution = report.execution.emplace();
    execution.backend = cluster.gpu().empty() ? "host" : "cuda";
    execution.ranks = cluster.devices();
    execution.launched = cluster.nodes() > 1;
    for (const lowering::ExecutionLimit* limit : lowering::LimitsOf(scenario->plan)) {
      execution.refused.push_back(fmt::format("{} ({})", limit->message, limit->hint));
    }
  }

  // The best plan of each kind, fitting ones by step time, others by missing memory.
  std::vector<report::KindRow> Kinds(const planner::SearchResult& result) {
    std::vector<report::KindRow> kinds;
    for (std::size_t group = 0; group < result.groups.size(); ++group) {
      const planner::GroupBest& best = result.groups[group];
      const std::int64_t plan = best.best >= 0 ? best.best : best.nearest;
      if (plan < 0) continue;
      kinds.push_back({.kind = space_->groups()[group],
                       .plans = best.plans,
                       .fits = best.best >= 0,
                       .row = Row(result, plan),
                       .least = best.least});
    }
    const auto order = [&](const report::KindRow& kind) {
      const double rate =
          kind.row.outcome.tokens_per_second_per_gpu * static_cast<double>(kind.row.facts.gpus);
      return std::tuple(!kind.fits, kind.fits ? -rate : 0,
                        kind.fits ? Bytes() : kind.row.bound.over);
    };
    std::stable_sort(kinds.begin(), kinds.end(),
                     [&](const auto& a, const auto& b) { return order(a) < order(b); });
    return kinds;
  }

  // Options for a search over part of the plans, after that over all plans.
  planner::SearchOptions BestOnly(planner::SearchOptions options) const {
    options.best = 1;
    options.exact = 0;
    options.pareto = false;
    options.groups = 0;
    options.enough = Enough(1 - kPartForDetails);
    return options;
  }

  // Adds the best plan for each number of GPUs, if there are several. A failure is a sentence.
  std::optional<std::string> AnswerSizes(planner::Answers& answers,
                                         const planner::SearchOptions& options,
                                         report::PlanReport& report) {
    std::set<std::int64_t> sizes;
    result_->states.ForEach([&](std::int64_t, std::int64_t, const planner::PlanState& state,
                                const planner::PlanFacts& facts) {
      const bool looked_at = facts.gpus > 0;  // before the search was ended
      if (looked_at && state.verdict != planner::Verdict::kIllegal) sizes.insert(facts.gpus);
    });
    if (sizes.size() < 2) return std::nullopt;
    planner::SearchOptions among = BestOnly(options);
    for (const std::int64_t gpus : sizes) {
      among.among = [&](std::int64_t plan) { return result_->states.FactsOf(plan).gpus == gpus; };
      auto found = planner::Search(answers, goal_, among, &*result_);
      if (!found) return found.error();
      report::SizeAnswer& answer = report.by_gpus.emplace_back();
      answer.gpus = gpus;
      if (!found->best.empty()) answer.best = Row(*found, found->best.front());
    }
    return std::nullopt;
  }

  // Adds the best plan of the layout of --why, and the number of better layouts. A failure is a
  // sentence.
  std::optional<std::string> AnswerLayout(planner::Answers& answers,
                                          const planner::SearchOptions& options,
                                          report::PlanReport& report) {
    planner::SearchOptions among = BestOnly(options);
    among.among = [this](std::int64_t plan) { return IsAskedFor(space_->PartOf(plan)); };
    auto found = planner::Search(answers, goal_, among, &*result_);
    if (!found) return found.error();
    report::LayoutAnswer& answer = report.why_layout.emplace();
    answer.layout = why_.layout_text;
    if (!found->best.empty()) {
      answer.best = Row(*found, found->best.front());
      SayWhereTimeGoes(*answer.best);
      CountLayouts(*result_, answer);
    } else if (!found->nearest.empty()) {
      answer.nearest = Row(*found, found->nearest.front());
    }
    return std::nullopt;
  }

  // Compares by time per token, whatever the goal.
  void CountLayouts(const planner::SearchResult& result, report::LayoutAnswer& answer) const {
    struct Best {
      double bound = 0, found = 0;  // tokens per second; 0: none
    };
    const auto rate = [](const planner::PlanFacts& facts, Time step) {
      return static_cast<double>(facts.tokens) / std::max(step.seconds(), 1e-12);
    };
    std::map<planner::Layout, Best> layouts;
    result.states.ForEach([&](std::int64_t plan, std::int64_t, const planner::PlanState& state,
                              const planner::PlanFacts& facts) {
      using planner::Verdict;
      const bool excluded = state.verdict == Verdict::kIllegal || state.verdict == Verdict::kSame ||
                            state.verdict == Verdict::kDoesNotFit ||
                            state.verdict == Verdict::kTooSlow;
      const planner::PlanPart& part = space_->PartOf(plan);
      if (IsAskedFor(part)) return;
      Best& best = layouts[part.layout];
      if (excluded) return;
      const auto outcome = result.outcomes.find(plan);
      if (outcome == result.outcomes.end()) {
        best.bound = std::max(best.bound, rate(facts, state.bound.step_time));
      } else if (Eligible(goal_, facts, outcome->second)) {
        best.found = std::max(best.found, rate(facts, outcome->second.step_time));
      }
    });
    const double own = rate(answer.best->facts, answer.best->outcome.step_time);
    for (const auto& [layout, best] : layouts) {
      ++(best.found > own ? answer.better : best.bound > own ? answer.unknown : answer.worse);
    }
  }

  // Notes a rule that refuses most plans, and a setting that would allow them.
  static void NoteRuleOfMost(const planner::SearchResult& result, std::vector<std::string>& notes) {
    for (const auto& [code, reason] : result.illegal) {
      for (const auto& [message, refused] : reason.messages) {
        if (2 * refused.count <= result.states.plans()) continue;
        notes.push_back(fmt::format("most plans are illegal, because {}. To change this: {}",
                                    message, refused.hint));
      }
    }
  }

  // A plan's key in a store.
  // The key of a plan's results in the store. Only forecasts for this goal contain the energy.
  std::string KeyOf(std::int64_t plan) const {
    return (CountsEnergy() ? "energy\n" : "") + planner::ToText(space_->Settings(plan));
  }

  // Notes omitted results that take several times as long as the best plan.
  void NoteWhatWasLeftOut(std::vector<std::string>& notes) const {
    if (space_->size() <= kMostPlansWithAll) return;
    std::vector<std::string> answers;
    if (question_.best == 0)
      answers.push_back(
          fmt::format("the proof that plans 2 to {0} are the next best plans (--best {0})", kBest));
    if (!FindsFront())
      answers.emplace_back("the Pareto front of step time, memory and GPUs (--front)");
    if (!FindsSensitivity())
      answers.emplace_back("changes that would improve the best plan (--sensitivity)");
    if (answers.empty()) return;
    notes.push_back(
        fmt::format("the search has more than {} plans, so it omits answers that would take "
                    "several times as long as the search: {}",
                    kMostPlansWithAll, fmt::join(answers, "; ")));
  }

  // Notes frameworks without a legal plan, and the reason against their first plan.
  void NoteFrameworksWithoutPlans(const planner::SearchResult& result,
                                  std::vector<std::string>& notes) {
    struct Plans {
      std::int64_t first = 0, legal = 0;
    };
    std::vector<std::pair<std::string, Plans>> frameworks;
    for (const planner::PlanPart& part : space_->parts()) {
      std::int64_t legal = 0;
      for (std::int64_t plan = part.first; plan < part.first + part.plans && legal == 0;
           plan += part.family) {
        const auto& family = result.states.FamilyOf(plan);
        const auto exists = [](const planner::PlanState& state) {
          return state.verdict != planner::Verdict::kIllegal;
        };
        legal += family.members.empty()
                     ? exists(family.whole)
                     : std::count_if(family.members.begin(), family.members.end(), exists);
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
          fmt::format("{}: no plan is legal{}", name,
                      scenario ? "" : fmt::format(": {}", scenario.error().front().message)));
    }
  }

  // Notes frameworks of the best plans with unknown host costs, whose steps may take longer than
  // forecast.
  void NoteUnknownHosts(const planner::SearchResult& result, std::vector<std::string>& notes) {
    std::set<plan::Framework> seen;
    for (std::size_t i = 0; i < result.best.size(); ++i) {
      const auto scenario = LoadPlan(result.best[i]);
      if (!scenario || !seen.insert(scenario->plan.data_parallel.framework).second) continue;
      if (const auto unknown = forecast::UnknownHostOf(*scenario)) {
        notes.push_back(
            fmt::format("host times of plan {}: {}", i + 1, forecast::Sentence(*unknown)));
      }
    }
  }

  // Adds the settings that differ between the plan and its ties.
  void NameTies(const planner::SearchResult& result, report::PlanRow& row) const {
    const auto found = result.ties.find(row.plan);
    if (found == result.ties.end()) return;
    row.ties = static_cast<std::int64_t>(found->second.size());
    // A missing key has its default.
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

  // Loads the scenario of a plan without resolving it.
  Result<scenario::Scenario> LoadPlan(std::int64_t plan) {
    const auto scenario = variants_.Own().Load(Overrides(space_->Settings(plan)));
    if (!scenario) return tl::unexpected(scenario.error());
    return **scenario;
  }

  planner::LoadedPlan Load(const planner::Settings& settings) {
    const scenario::Variants::Tried tried = variants_.Own().Try(Overrides(settings));
    if (tried.scenario != nullptr) return {.scenario = tried.scenario};
    if (tried.broken == nullptr) {
      const Diagnostic& first = tried.mistakes.front();
      return {.code = first.code, .message = first.message, .hint = first.hint};
    }
    const plan::Violation& first = tried.broken->front();
    planner::LoadedPlan refused{.code = first.code, .message = first.message, .hint = first.hint};
    refused.by_inner = std::all_of(
        tried.broken->begin(), tried.broken->end(), [](const plan::Violation& violation) {
          return violation.key.starts_with("data_parallel.") || violation.code == "plan.schedule";
        });
    return refused;
  }

  report::PlanRow Row(const planner::SearchResult& result, std::int64_t plan) {
    report::PlanRow row;
    row.plan = plan;
    row.settings = space_->Settings(plan);
    if (const auto scenario = LoadPlan(plan)) row.values = scenario->plan;
    row.facts = result.states.FactsOf(plan);
    row.verdict = result.states.Of(plan).verdict;
    row.bound = result.states.Of(plan).bound;
    const auto outcome = result.outcomes.find(plan);
    row.simulated = outcome != result.outcomes.end();
    if (row.simulated) row.outcome = outcome->second;
    return row;
  }

  // Forecasts the plan once more with records of its operations, unless the time is up.
  void SayWhereTimeGoes(report::PlanRow& row) {
    const auto known = detailed_.find(row.plan);
    if (known != detailed_.end()) {
      row.spent = known->second.spent;
      row.range = known->second.range;
      return;
    }
    const auto scenario = LoadPlan(row.plan);
    const auto forecast = scenario ? Forecast(*scenario) : std::nullopt;
    if (!forecast) return;
    Detail(*forecast, row);
    detailed_.emplace(row.plan, row);
  }

  static void Detail(const forecast::Forecast& forecast, report::PlanRow& row) {
    const forecast::TimeBreakdown& time = forecast.time;
    report::TimeSpent& spent = row.spent.emplace();
    spent.step = forecast.step_time;
    for (const Time phase : time.phase) spent.computing += phase;
    spent.communicating = time.exposed_communication + time.imbalance;
    spent.bubble = time.pipeline_bubble;
    row.range = forecast.step_time_range;
    row.outcome.step_time = forecast.step_time;
  }

  // A row simulated without records gets the relative range of the nearest recorded row, of the
  // same kind if possible.
  void SayRanges(report::PlanReport& report) const {
    std::vector<const report::PlanRow*> known;
    for (const auto& [plan, row] : detailed_) {
      if (row.range) known.push_back(&row);
    }
    if (report.own && report.own->range) known.push_back(&*report.own);
    const auto say = [&](report::PlanRow& row) {
      if (row.range || known.empty() || !row.simulated) return;
      const auto is_alike = [&](const report::PlanRow* other) {
        const plan::Plan &a = row.values, &b = other->values;
        return a.data_parallel.framework == b.data_parallel.framework &&
               (a.parallelism.tensor > 1) == (b.parallelism.tensor > 1) &&
               (a.parallelism.pipeline > 1) == (b.parallelism.pipeline > 1);
      };
      const auto alike = std::find_if(known.begin(), known.end(), is_alike);
      const report::PlanRow& like = alike == known.end() ? *known.front() : **alike;
      const double scale = row.outcome.step_time / like.outcome.step_time;
      const auto scaled = [&](Time time) {
        return Picoseconds(std::llround(scale * static_cast<double>(time.picoseconds())));
      };
      row.range = {.low = scaled(like.range->low), .high = scaled(like.range->high)};
    };
    for (report::KindRow& kind : report.kinds) {
      if (kind.fits) say(kind.row);
    }
    for (auto* rows : {&report.best, &report.pareto, &report.nearest}) {
      std::for_each(rows->begin(), rows->end(), say);
    }
    if (report.risky) say(*report.risky);
  }

  std::vector<report::PlanRow> Rows(const planner::SearchResult& result,
                                    const std::vector<std::int64_t>& plans) {
    std::vector<report::PlanRow> rows;
    for (const std::int64_t plan : plans) rows.push_back(Row(result, plan));
    return rows;
  }

  static constexpr std::int64_t kOwn = 0;
  static constexpr int kBest = 5;
  static constexpr double kPartForDetails = 0.1;  // of the search's time limit

  const Clock::time_point begin_ = Clock::now();
  const PlanQuestion question_;
  std::vector<std::string> set_;  // the question's overrides, and those for a legal scenario
  std::vector<std::string> assumed_, refused_;  // PlanBase
  StopFlag stop_;
  scenario::InputCache cache_;
  Varied varied_;
  planner::PerThread<scenario::Variants> variants_;
  planner::Goal goal_;
  std::optional<scenario::Scenario> base_;
  std::optional<planner::PlanSpace> space_;
  planner::PlanSource source_;
  planner::SearchProblem problem_;
  planner::Work work_;
  forecast::Forecaster forecaster_;  // for the details of rows
  std::map<std::string, std::string> files_;
  std::optional<planner::SearchResult> result_;
  std::optional<double> within_;  // seconds
  std::function<bool()> enough_;
  std::map<std::int64_t, report::PlanRow> detailed_;
  Why why_;
};

}  // namespace

std::unique_ptr<PlanSearch> PlanSearch::Of(PlanQuestion question) {
  return std::make_unique<Search>(std::move(question));
}

}  // namespace stepcast::study
