#include "src/validate/plain_passes.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "src/model/stage.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/rank_grid.h"
#include "src/plan/pipeline.h"
#include "src/plan/plan.h"
#include "src/plan/rank_grid.h"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::validate {
namespace {

namespace values = runtime::values;
using model::Operation;
using model::ValueUse;

// The words at the start of each part of a communicated value: one FP32 number, or two 16-bit
// numbers.
using Words = std::vector<std::uint32_t>;

std::uint32_t Emitted(std::uint32_t word, int part, DataType type) {
  return values::WithStorageType(type, [&](auto storage) {
    using T = decltype(storage);
    constexpr std::size_t kNumbers = sizeof(std::uint32_t) / sizeof(T);
    T numbers[kNumbers];
    for (std::size_t n = 0; n < kNumbers; ++n) {
      const auto element = static_cast<std::int64_t>(static_cast<std::size_t>(part) * kNumbers + n);
      numbers[n] = values::FromFp32<T>(
          values::SmallIntegerGradient(values::FloatOfBits(word), word, element));
    }
    std::uint32_t bits = 0;
    std::memcpy(&bits, numbers, sizeof(bits));
    return bits;
  });
}

std::uint32_t Sum(std::uint32_t a, std::uint32_t b, DataType type) {
  return values::WithStorageType(type, [&](auto storage) {
    using T = decltype(storage);
    constexpr std::size_t kNumbers = sizeof(std::uint32_t) / sizeof(T);
    T left[kNumbers], right[kNumbers];
    std::memcpy(static_cast<void*>(left), &a, sizeof(a));
    std::memcpy(static_cast<void*>(right), &b, sizeof(b));
    for (std::size_t n = 0; n < kNumbers; ++n) {
      left[n] = values::FromFp32<T>(values::ToFp32(left[n]) + values::ToFp32(right[n]));
    }
    std::uint32_t bits = 0;
    std::memcpy(&bits, left, sizeof(bits));
    return bits;
  });
}

// One micro-batch on all ranks of a pipeline stage.
class Ranks {
 public:
  // `ranks`: number in a stage, the first of the grids. `one_word`: see lowering/passes.h.
  Ranks(const parallel::Grids& grids, int ranks, bool one_word)
      : grids_(grids),
        one_word_(one_word),
        words_(static_cast<std::size_t>(ranks)),
        values_(words_.size()) {}

  Words& words() { return words_; }

  // Runs a list of operations; calls `taken` with each kernel that completes gradients.
  template <typename Taken>
  void Run(const std::vector<Operation>& list, int layer, int hands_back_to, DataType type,
           const Taken& taken) {
    std::size_t last_kernel = list.size();
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].group) last_kernel = i;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Operation& operation = list[i];
      if (operation.group) {
        Communicate(*operation.group, layer);
        continue;
      }
      TakePending();
      for (const ValueUse& use : operation.uses) {
        if (!use.write) Take(use, layer);
      }
      for (const ValueUse& use : operation.uses) {
        if (use.write) Give(use, layer);
      }
      if (i == last_kernel && hands_back_to >= 0) {
        Give({.value = {model::Lifetime::kHandedBack},
              .type = type,
              .content = ValueUse::Content::kGathered},
             hands_back_to);
      }
      taken(operation);
    }
    for (const ValueUse& use : model::LeftToTheNextKernel(list)) {
      pending_.push_back(use);
      pending_layer_ = layer;
    }
  }

  // Applies words that a list left for the next kernel, or for the message to another stage.
  void TakePending() {
    for (const ValueUse& use : pending_) Take(use, pending_layer_);
    pending_.clear();
  }

  // Receives the gradient of another stage: the unchanged word.
  void Receive(int layer) {
    for (std::size_t rank = 0; rank < words_.size(); ++rank) {
      ValueOf(rank, {.value = {model::Lifetime::kHandedBack}}, layer)[0] = words_[rank];
    }
  }

 private:
  using Key = std::pair<int, model::ValueId>;
  static Key KeyOf(const ValueUse& use, int layer) { return {layer, use.value}; }

  // The words of the use's range, in a value with at least as many.
  static std::size_t First(const ValueUse& use) {
    return static_cast<std::size_t>(use.range.piece * use.parts);
  }
  static std::size_t End(const ValueUse& use) {
    return First(use) + static_cast<std::size_t>(use.parts);
  }
  Words& ValueOf(std::size_t rank, const ValueUse& use, int layer) {
    Words& value = values_[rank][KeyOf(use, layer)];
    if (value.size() < End(use)) value.resize(End(use));
    return value;
  }

  void Take(const ValueUse& use, int layer) {
    const bool gathered = use.content == ValueUse::Content::kGathered;
    for (std::size_t rank = 0; rank < words_.size(); ++rank) {
      const Words& value = ValueOf(rank, use, layer);
      for (std::size_t part = First(use); part < End(use); ++part) {
        words_[rank] = values::MixedPass(value[part], gathered && part == 0 ? 0 : words_[rank],
                                         static_cast<std::int64_t>(part));
      }
    }
  }

  void Give(const ValueUse& use, int layer) {
    for (std::size_t rank = 0; rank < words_.size(); ++rank) {
      Words& value = ValueOf(rank, use, layer);
      for (std::size_t part = First(use); part < End(use); ++part) {
        value[part] = use.content != ValueUse::Content::kSum
                          ? words_[rank]
                          : Emitted(words_[rank], one_word_ ? 0 : static_cast<int>(part), use.type);
      }
    }
  }

  void Communicate(const model::GroupOperation& group, int layer) {
    std::vector<Words> sources;
    for (std::size_t rank = 0; rank < values_.size(); ++rank) {
      const Words& value = ValueOf(rank, group.source, layer);
      sources.emplace_back(value.begin() + static_cast<std::ptrdiff_t>(First(group.source)),
                           value.begin() + static_cast<std::ptrdiff_t>(End(group.source)));
    }
    for (std::size_t rank = 0; rank < values_.size(); ++rank) {
      const std::vector<int> ranks = grids_.Layout(group.axes).Ranks(static_cast<int>(rank));
      const std::size_t size = ranks.size();
      const auto place = static_cast<std::size_t>(
          std::find(ranks.begin(), ranks.end(), static_cast<int>(rank)) - ranks.begin());
      const auto sent = [&](std::size_t from, std::size_t part) {
        return sources[static_cast<std::size_t>(ranks[from % size])][part];
      };
      const auto added = [&](std::size_t part) {
        std::uint32_t sum = sent(0, part);
        for (std::size_t from = 1; from < size; ++from) {
          sum = Sum(sum, sent(from, part), group.type);
        }
        return sum;
      };
      const std::size_t first = First(group.target);
      Words& target = ValueOf(rank, group.target, layer);
      switch (group.collective) {
        case CollectiveKind::kAllGather:
          for (std::size_t from = 0; from < size; ++from) target[first + from] = sent(from, 0);
          break;
        case CollectiveKind::kReduceScatter:
          target[first] = added(place);
          break;
        case CollectiveKind::kSendRecv:
          target[first] = sent(place + size - static_cast<std::size_t>(group.distance), 0);
          break;
        case CollectiveKind::kAllToAll:
          for (std::size_t part = 0; part + 1 < size; ++part) {
            target[first + part] = sent(place + size - 1 - part, part);
          }
          break;
        default:
          target[first] = added(0);
          break;
      }
    }
  }

  const parallel::Grids& grids_;
  const bool one_word_;
  Words words_;
  std::vector<std::map<Key, Words>> values_;  // by rank
  std::vector<ValueUse> pending_;
  int pending_layer_ = 0;
};

}  // namespace

PlainPasses::PlainPasses(const scenario::Scenario& scenario)
    : scenario_(scenario),
      apart_(scenario.plan.parallelism.pipeline == 1 && scenario.plan.parallelism.tensor == 1 &&
             scenario.plan.parallelism.context == 1 && scenario.plan.parallelism.expert == 1 &&
             scenario.plan.parallelism.expert_tensor == 1),
      grids_(plan::GridsOf(scenario.plan)),
      ranks_(grids_.ranks() / grids_.Degree(parallel::Axis::kPipeline)) {
  stages_ = model::ChunkLayers(*scenario.model, scenario.plan.parallelism.stage_layers);
  if (apart_) return;
  const model::WorkOptions options = plan::WorkOptionsOf(scenario.plan);
  works_ = model::BuildWork(*scenario.model, options);
  work_of_layer_ =
      model::WorkOfLayers(*scenario.model, options, stages_, plan::StagesOfChunks(scenario.plan));
  if (!scenario.plan.parallelism.splits_backward) return;
  split_.assign(stages_.size() - 1,
                std::vector<bool>(
                    static_cast<std::size_t>(scenario.plan.training.gradient_accumulation), false));
  for (const parallel::PipelineSchedule::Stage& stage : plan::ScheduleOf(scenario.plan).stages) {
    for (const parallel::ScheduleEntry& entry : stage.entries) {
      for (const parallel::Action& action : parallel::ActionsOf(entry)) {
        if (action.task != parallel::Task::kBackwardInput) continue;
        split_[static_cast<std::size_t>(action.chunk)]
              [static_cast<std::size_t>(action.micro_batch)] = true;
      }
    }
  }
}

PlainPasses::Seeds PlainPasses::NoSeeds() const {
  Seeds seeds(static_cast<std::size_t>(ranks_));
  for (auto& of_rank : seeds) {
    for (const model::Layer& layer : scenario_.model->layers) {
      of_rank.emplace_back(layer.tensors.size());
    }
  }
  return seeds;
}

bool PlainPasses::SplitsBackward(int stage, int micro_batch) const {
  return !split_.empty() &&
         split_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(micro_batch)];
}

PlainPasses::Seeds PlainPasses::Of(std::uint32_t step, int micro_batch) const {
  const int stages = static_cast<int>(stages_.size()) - 1;
  const DataType type = plan::ComputeType(scenario_.plan.training.precision);
  const auto work = [&](int layer) -> const model::LayerWork& {
    return works_[static_cast<std::size_t>(work_of_layer_[static_cast<std::size_t>(layer)])];
  };
  Seeds seeds = NoSeeds();
  Ranks ranks(grids_, ranks_, !plan::AddsUpPartsOfTokens(scenario_.plan));
  const auto each = [&](const auto& word) {
    for (std::size_t rank = 0; rank < ranks.words().size(); ++rank) {
      ranks.words()[rank] = word(rank, ranks.words()[rank]);
    }
  };
  std::vector<Words> onwards;  // by stage
  for (int stage = 0; stage < stages; ++stage) {
    each([&](std::size_t rank, std::uint32_t word) {
      const std::int64_t part = plan::BatchPartOf(scenario_.plan, static_cast<int>(rank));
      const std::uint32_t seed =
          values::SmallIntegerSeed(static_cast<int>(part), step, micro_batch);
      return values::MixedPass(stage == 0 ? seed : word, 0, stage);
    });
    for (int layer = stages_[static_cast<std::size_t>(stage)];
         layer < stages_[static_cast<std::size_t>(stage) + 1]; ++layer) {
      ranks.Run(work(layer).forward, layer, -1, type, [](const Operation&) {});
    }
    if (stage + 1 < stages) ranks.TakePending();
    onwards.push_back(ranks.words());
  }
  const auto take = [&](int layer, const Operation& operation) {
    for (std::size_t rank = 0; rank < seeds.size(); ++rank) {
      for (const int position : operation.gradients) {
        seeds[rank][static_cast<std::size_t>(layer)][static_cast<std::size_t>(position)] =
            ranks.words()[rank];
      }
    }
  };
  for (int stage = stages - 1; stage >= 0; --stage) {
    const bool split = SplitsBackward(stage, micro_batch);
    const Words received = ranks.words();
    const bool receives = stage + 1 < stages;
    const int first = stages_[static_cast<std::size_t>(stage)];
    const int last = stages_[static_cast<std::size_t>(stage) + 1] - 1;
    if (receives) ranks.Receive(last);
    each([&](std::size_t rank, std::uint32_t) {
      return values::MixedPass(onwards[static_cast<std::size_t>(stage)][rank], 0, stages + stage);
    });
    for (int layer = last; layer >= first; --layer) {
      // The blocks of a checkpoint are recomputed before the backward of its last layer.
      int from = layer;
      while (work(from).continues_checkpoint) --from;
      const bool later = layer < last && work(layer + 1).continues_checkpoint;
      for (int again = from; again <= layer && !later; ++again) {
        ranks.Run(work(again).recompute, again, -1, type, [](const Operation&) {});
      }
      if (layer == last && receives) {
        each([&](std::size_t rank, std::uint32_t word) {
          return values::MixedPass(received[rank], word, stage);
        });
      }
      const bool hands_back =
          layer > first && !work(layer - 1).Of(model::Lifetime::kHandedBack).empty();
      ranks.Run(split ? work(layer).backward_input.operations : work(layer).backward, layer,
                hands_back ? layer - 1 : -1, type,
                [&](const Operation& operation) { take(layer, operation); });
    }
    if (stage > 0) ranks.TakePending();
    if (!split) continue;
    const Words handed_on = ranks.words();
    for (int layer = last; layer >= first; --layer) {
      ranks.Run(work(layer).backward_weight.operations, layer, -1, type,
                [&](const Operation& operation) { take(layer, operation); });
    }
    ranks.words() = handed_on;
  }
  return seeds;
}

}  // namespace stepcast::validate
