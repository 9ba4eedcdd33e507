#include "src/forecast/prepared_programs.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"

namespace stepcast::forecast {
namespace {

// More are not needed: as a rule one is forgotten when one is added.
constexpr std::size_t kMostSpare = 4;

std::size_t InstructionsOf(const program::Program& program) {
  return program.prologue.size() + program.step.size();
}

}  // namespace

PreparedProgram& PreparedPrograms::Of(const scenario::Scenario& scenario) {
  const Ranks ranks = RanksOf(scenario.plan);
  Known* known = Find(scenario, ranks);
  bool found = known != nullptr;
  if (!found) {
    Works works = WorksOf(scenario);
    std::optional<std::vector<lowering::Bucket>> buckets;
    known = FindOfOtherWork(scenario, ranks, *works);
    if (known == nullptr) buckets = lowering::GradientBuckets(scenario, *works);
    if (buckets) known = FindByBuckets(scenario, ranks, *works, *buckets);
    found = known != nullptr;
    if (found) {
      TakeWork(scenario, std::move(works), *known);
    } else {
      known = &Add(scenario, ranks, std::move(works), std::move(buckets));
    }
  }
  last_ = known;
  known->last_used = ++uses_;
  PreparedProgram& prepared = known->prepared;
  if (found && known->resizes) {
    if (lowering::Resize(scenario, *prepared.works, prepared.program, &prepared.sizes)) {
      return prepared;
    }
    known->resizes = prepared.sizes.complete();  // to other numbers of ranks it may
  }
  Lower(scenario, prepared);
  if (!found) Forget();
  return prepared;
}

void PreparedPrograms::Lower(const scenario::Scenario& scenario, PreparedProgram& prepared) {
  program::Program spent = std::move(prepared.program);
  prepared.sizes.Clear();
  prepared.program = lowering::Lower(
      scenario,
      {.works = prepared.works.get(), .bare = true, .sizes = &prepared.sizes, .spent = &spent});
  prepared.counts = StepCounts(prepared.program);
  prepared.flops.reset();
  prepared.prices.device = 0;
  prepared.has_schedule = false;
  prepared.timed = memory::DeferredFrees(prepared.program).any();
  prepared.sized_by_ranks = lowering::SizesDependOnRanks(scenario.plan);
}

PreparedPrograms::Ranks PreparedPrograms::RanksOf(const plan::Plan& plan) {
  const std::int64_t data = plan.parallelism.data;
  const std::int64_t shard = plan.data_parallel.shard_group_size;
  return {.several = data > 1, .several_share = shard > 1, .all_share = shard == data};
}

// Numbers of ranks are made the same first: comparing goes by without a copy of the plan.
bool PreparedPrograms::Same(const scenario::Scenario& scenario, const Ranks& ranks, Known& known) {
  const plan::Plan& plan = scenario.plan;
  plan::Plan& other = known.plan;
  if (known.model != scenario.model || known.calibration != scenario.calibration ||
      known.ranks != ranks) {
    return false;
  }
  other.parallelism.data = plan.parallelism.data;
  other.data_parallel.shard_group_size = plan.data_parallel.shard_group_size;
  other.training.global_batch_size = plan.training.global_batch_size;
  return other.data_parallel == plan.data_parallel && other.training == plan.training &&
         other.parallelism == plan.parallelism && other.software == plan.software;
}

bool PreparedPrograms::SameButForWork(const scenario::Scenario& scenario, const Ranks& ranks,
                                      const std::vector<model::LayerWork>& works,
                                      Known& known) const {
  const bool same_work = known.prepared.works.get() == &works;
  if (!same_work && uses_ - known.last_used < kLately) return false;
  plan::Training& training = known.plan.training;
  const auto own = std::pair(training.micro_batch_size, training.sequence_length);
  training.micro_batch_size = scenario.plan.training.micro_batch_size;
  training.sequence_length = scenario.plan.training.sequence_length;
  if (Same(scenario, ranks, known) &&
      (same_work || lowering::CanReplaceWork(scenario.plan, *known.prepared.works, works))) {
    return true;
  }
  std::tie(training.micro_batch_size, training.sequence_length) = own;
  return false;
}

PreparedPrograms::Known* PreparedPrograms::Find(const scenario::Scenario& scenario,
                                                const Ranks& ranks) {
  if (last_ != nullptr && Same(scenario, ranks, *last_)) return last_;
  for (const auto& known : known_) {
    if (Same(scenario, ranks, *known)) return known.get();
  }
  return nullptr;
}

PreparedPrograms::Known* PreparedPrograms::FindOfOtherWork(
    const scenario::Scenario& scenario, const Ranks& ranks,
    const std::vector<model::LayerWork>& works) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& known) {
    return SameButForWork(scenario, ranks, works, *known);
  });
  return found == known_.end() ? nullptr : found->get();
}

PreparedPrograms::Known* PreparedPrograms::FindByBuckets(
    const scenario::Scenario& scenario, const Ranks& ranks,
    const std::vector<model::LayerWork>& works, const std::vector<lowering::Bucket>& buckets) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& known) {
    if (!known->buckets || *known->buckets != buckets) return false;
    plan::DataParallel& data_parallel = known->plan.data_parallel;
    const auto own = std::pair(data_parallel.bucket_size, data_parallel.first_bucket_size);
    data_parallel.bucket_size = scenario.plan.data_parallel.bucket_size;
    data_parallel.first_bucket_size = scenario.plan.data_parallel.first_bucket_size;
    if (SameButForWork(scenario, ranks, works, *known)) return true;
    std::tie(data_parallel.bucket_size, data_parallel.first_bucket_size) = own;
    return false;
  });
  return found == known_.end() ? nullptr : found->get();
}

// A micro-batch's work does not depend on how many there are.
PreparedPrograms::Works PreparedPrograms::WorksOf(const scenario::Scenario& scenario) {
  plan::Training training = scenario.plan.training;
  training.gradient_accumulation = 1;
  training.global_batch_size = 0;
  const auto same = std::find_if(works_.begin(), works_.end(), [&](const KnownWorks& known) {
    return known.model == scenario.model && known.training == training;
  });
  if (same != works_.end()) return same->works;
  if (works_.size() == kMostWorks) works_.erase(works_.begin());
  Works works = std::make_shared<const std::vector<model::LayerWork>>(
      model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training)));
  works_.push_back({.model = scenario.model, .training = std::move(training), .works = works});
  return works;
}

// What was found out from instructions alone stays.
void PreparedPrograms::TakeWork(const scenario::Scenario& scenario, Works works, Known& known) {
  PreparedProgram& prepared = known.prepared;
  if (prepared.works == works) return;
  prepared.works = std::move(works);
  if (!known.resizes) return;  // it will be lowered as a whole
  lowering::ReplaceWork(scenario, *prepared.works, prepared.program);
  prepared.flops.reset();
  prepared.prices.device = 0;
  prepared.schedule.ForgetPrices();
}

PreparedPrograms::Known& PreparedPrograms::Add(
    const scenario::Scenario& scenario, const Ranks& ranks, Works works,
    std::optional<std::vector<lowering::Bucket>> buckets) {
  if (spare_.empty()) spare_.push_back(std::make_unique<Known>());
  Known& made = *known_.emplace_back(std::move(spare_.back()));
  spare_.pop_back();
  made.model = scenario.model;
  made.calibration = scenario.calibration;
  made.plan = scenario.plan;
  made.ranks = ranks;
  made.buckets = std::move(buckets);
  made.resizes = true;
  made.prepared.works = std::move(works);
  return made;
}

// The one that was used last stays.
void PreparedPrograms::Forget() {
  std::size_t instructions = 0;
  for (const auto& known : known_) instructions += InstructionsOf(known->prepared.program);
  while (instructions > kMostInstructions && known_.size() > 1) {
    const auto oldest =
        std::min_element(known_.begin(), known_.end(),
                         [](const auto& a, const auto& b) { return a->last_used < b->last_used; });
    instructions -= InstructionsOf((*oldest)->prepared.program);
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(*oldest));
    known_.erase(oldest);
  }
}

}  // namespace stepcast::forecast
