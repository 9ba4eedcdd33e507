#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/cost/price.h"
#include "src/forecast/step_counts.h"
#include "src/forecast/throughput.h"
#include "src/lowering/buckets.h"
#include "src/lowering/program_sizes.h"
#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"
#include "src/simulate/schedule.h"

// What the rows of a sweep have in common, kept from one to the next.
namespace stepcast::forecast {

// A lowered program, and what follows from its instructions alone.
struct PreparedProgram {
  program::Program program;
  lowering::ProgramSizes sizes;  // of the program, where its technique knows how they follow
  std::shared_ptr<const std::vector<model::LayerWork>> works;  // model::BuildWork of the scenario
  StepCounts counts;
  std::optional<MicroBatchFlops> flops;  // of the works, once somebody asked
  cost::KeptPrices prices;               // those of the row before
  simulate::Schedule schedule;  // of the instructions; its prices are those of the row before
  bool has_schedule = false;
  bool timed = false;          // memory::DeferredFrees: it defers some
  bool sized_by_ranks = true;  // lowering::SizesDependOnRanks

  // The kernels that may be others than in the row before; null: any may.
  const std::vector<program::Index>* changed_kernels() const {
    return sizes.complete() || !sized_by_ranks ? &sizes.kernels() : nullptr;
  }
};

// Programs by what lowering makes their instructions of: the model and the plan without its numbers
// of ranks; and by the profile. Rows that differ in those alone go through the same instructions
// over tables of other sizes (lowering::Resize). So do rows with other bucket sizes that cut the
// same buckets, and rows with larger micro-batches or longer sequences (lowering::ReplaceWork).
// Plans are compared in full; where the instructions turn out not to be the same the program is
// lowered as a whole.
class PreparedPrograms {
 public:
  // The scenario's, until the next call.
  PreparedProgram& Of(const scenario::Scenario& scenario);

 private:
  // What of numbers of ranks can make a difference between instructions: whether there are one or
  // several, and whether groups of them hold a copy of the states each.
  struct Ranks {
    bool several = false, several_share = false, all_share = false;
    friend bool operator==(const Ranks&, const Ranks&) = default;
  };
  struct Known {
    std::shared_ptr<const model::Model> model;
    std::shared_ptr<const calibration::Calibration> calibration;  // of what it costs to issue
    plan::Plan plan;  // its numbers of ranks do not count
    Ranks ranks = {};
    // lowering::GradientBuckets: where there are some, other bucket sizes may do as well.
    std::optional<std::vector<lowering::Bucket>> buckets;
    bool resizes = true;
    std::uint64_t last_used = 0;
    PreparedProgram prepared;
  };
  // Beyond so many instructions those that were not used for longest are forgotten; with all that
  // belongs to them one takes some 200 bytes.
  static constexpr std::size_t kMostInstructions = 500'000;

  using Works = std::shared_ptr<const std::vector<model::LayerWork>>;
  struct KnownWorks {
    std::shared_ptr<const model::Model> model;
    plan::Training training;  // what does not concern a micro-batch does not count
    Works works;
  };
  static constexpr std::size_t kMostWorks = 16;
  // Rows that go to and fro between sizes of micro-batches have a program for each.
  static constexpr std::uint64_t kLately = 32;

  static Ranks RanksOf(const plan::Plan& plan);
  static bool Same(const scenario::Scenario& scenario, const Ranks& ranks, Known& known);
  // The same but for the size of a micro-batch; the known program's can become that of `works`, and
  // rows have not come to it lately.
  bool SameButForWork(const scenario::Scenario& scenario, const Ranks& ranks,
                      const std::vector<model::LayerWork>& works, Known& known) const;

  // Null if there is none.
  Known* Find(const scenario::Scenario& scenario, const Ranks& ranks);
  Known* FindOfOtherWork(const scenario::Scenario& scenario, const Ranks& ranks,
                         const std::vector<model::LayerWork>& works);
  Known* FindByBuckets(const scenario::Scenario& scenario, const Ranks& ranks,
                       const std::vector<model::LayerWork>& works,
                       const std::vector<lowering::Bucket>& buckets);
  Known& Add(const scenario::Scenario& scenario, const Ranks& ranks, Works works,
             std::optional<std::vector<lowering::Bucket>> buckets);
  Works WorksOf(const scenario::Scenario& scenario);
  static void TakeWork(const scenario::Scenario& scenario, Works works, Known& known);
  static void Lower(const scenario::Scenario& scenario, PreparedProgram& prepared);
  void Forget();

  std::vector<std::unique_ptr<Known>> known_;
  std::vector<std::unique_ptr<Known>> spare_;  // forgotten: their memory is used again
  Known* last_ = nullptr;                      // was asked for last
  std::vector<KnownWorks> works_;
  std::uint64_t uses_ = 0;
};

}  // namespace stepcast::forecast
