#include "src/forecast/prepared_programs.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/lowering/lowering.h"

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
    auto buckets = lowering::GradientBuckets(scenario, *works);
    if (buckets) known = FindByBuckets(scenario, ranks, *buckets);
    found = known != nullptr;
    if (!found) known = &Add(scenario, ranks, std::move(works), std::move(buckets));
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
  prepared.timed = ReleasesAreTimed(prepared.program);
  prepared.delayed.reset();
  prepared.kernels_delay = false;
  if (prepared.timed) {
    prepared.delayed.emplace(prepared.program);
    prepared.kernels_delay = prepared.delayed->wait_for_kernels();
  }
  prepared.sized_by_ranks = lowering::SizesDependOnRanks(scenario.plan);
  prepared.peak.reset();
  prepared.memory.reset();
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

// A micro-batch's work does not depend on how many there are.
bool PreparedPrograms::SameWork(const scenario::Scenario& scenario, Known& known) {
  const plan::Training& training = scenario.plan.training;
  plan::Training& other = known.plan.training;
  if (known.model != scenario.model) return false;
  const std::int64_t own = other.gradient_accumulation;
  other.gradient_accumulation = training.gradient_accumulation;
  other.global_batch_size = training.global_batch_size;
  const bool same = other == training;
  other.gradient_accumulation = own;
  return same;
}

PreparedPrograms::Known* PreparedPrograms::Find(const scenario::Scenario& scenario,
                                                const Ranks& ranks) {
  if (last_ != nullptr && Same(scenario, ranks, *last_)) return last_;
  for (const auto& known : known_) {
    if (Same(scenario, ranks, *known)) return known.get();
  }
  return nullptr;
}

PreparedPrograms::Known* PreparedPrograms::FindByBuckets(
    const scenario::Scenario& scenario, const Ranks& ranks,
    const std::vector<lowering::Bucket>& buckets) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& known) {
    if (!known->buckets) return false;
    plan::DataParallel& data_parallel = known->plan.data_parallel;
    const auto own = std::pair(data_parallel.bucket_size, data_parallel.first_bucket_size);
    data_parallel.bucket_size = scenario.plan.data_parallel.bucket_size;
    data_parallel.first_bucket_size = scenario.plan.data_parallel.first_bucket_size;
    if (Same(scenario, ranks, *known) && *known->buckets == buckets) return true;
    std::tie(data_parallel.bucket_size, data_parallel.first_bucket_size) = own;
    return false;
  });
  return found == known_.end() ? nullptr : found->get();
}

PreparedPrograms::Works PreparedPrograms::WorksOf(const scenario::Scenario& scenario) {
  const auto same = std::find_if(known_.rbegin(), known_.rend(),
                                 [&](const auto& known) { return SameWork(scenario, *known); });
  if (same != known_.rend()) return (*same)->prepared.works;
  return std::make_shared<const std::vector<model::LayerWork>>(
      model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training)));
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
