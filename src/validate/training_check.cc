#include "src/validate/training_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "src/messaging/byte_stream.h"
#include "src/model/stage.h"
#include "src/parallel/axis.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/plan/framework_style.h"
#include "src/plan/pipeline.h"
#include "src/plan/plan.h"
#include "src/plan/rank_grid.h"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/optimizers.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::validate {
namespace {

namespace values = runtime::values;

float Rounded(float value, DataType type) {
  return values::WithStorageType(
      type, [&](auto t) { return values::ToFp32(values::FromFp32<decltype(t)>(value)); });
}

// The type in which a layer's kernels read a tensor. Sharded parameters are gathered in the compute
// type; autocast converts the matrices of all layers except the embedding; otherwise parameters are
// read as stored.
DataType TypeRead(const scenario::Scenario& scenario, const model::Layer& layer,
                  const model::Tensor& tensor) {
  const plan::Training& training = scenario.plan.training;
  const DataType computed = plan::ComputeType(training.precision);
  if (training.autocast) {
    const bool casts = !scenario.model->is_layer_list() && tensor.shape.size() > 1 &&
                       layer.kind != model::LayerKind::kEmbedding;
    return casts ? computed : training.parameter_dtype;
  }
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  const bool textbook = plan::TraitsOf(data_parallel.framework).textbook;
  // In the textbook, a shard group of one rank gathers nothing.
  const bool gathers =
      plan::IsFsdp(data_parallel.framework) ||
      (textbook && data_parallel.zero_stage == 3 && plan::ShardRanks(scenario.plan) > 1);
  return gathers ? computed : training.parameter_dtype;
}

// The type of gradients when they are clipped; DeepSpeed has converted them to FP32 by then.
DataType TypeClipped(const scenario::Scenario& scenario) {
  const bool wide = plan::StyleOf(scenario.plan.data_parallel.framework).clips_in_fp32;
  return wide ? DataType::kFp32 : scenario.plan.training.gradient_dtype;
}

// The number of parts into which ranks split the tensor.
std::int64_t Parts(const model::Tensor& tensor, const parallel::Grids& grids) {
  std::int64_t parts = 1;
  for (const model::Split& split : tensor.splits) parts *= grids.Degree(split.axis);
  return parts;
}

// Whether the rank's gradient counts. Of ranks with the same part of a tensor, only the first one's
// does, unless each has its own part of the tokens.
bool Contributes(const plan::Plan& plan, const model::Tensor& tensor,
                 const parallel::RankGrid::Coordinates& at) {
  const parallel::Axis axis = tensor.group == model::ParameterGroup::kExperts
                                  ? parallel::Axis::kExpertTensor
                                  : parallel::Axis::kTensor;
  return at[static_cast<std::size_t>(axis)] == 0 || tensor.IsSplitAlong(axis) ||
         (tensor.sequence_parallel && plan::AddsUpPartsOfTokens(plan));
}

class PlainTraining {
 public:
  PlainTraining(const scenario::Scenario& scenario, Gradients gradients, std::uint64_t seed)
      : scenario_(scenario),
        training_(scenario.plan.training),
        gradients_(gradients),
        passes_(scenario),
        grids_(plan::GridsOf(scenario.plan)),
        local_(model::Localised(*scenario.model, grids_)),
        updated_(plan::UpdatedType(training_)) {
    NumberElements();
    MarkUsed();
    for (std::int64_t e = 0; e < count_; ++e) {
      weights_.masters.push_back(
          Rounded(values::InitialValue(values::SeedHash(seed), e), updated_));
      weights_.parameters.push_back(weights_.masters.back());
    }
    moments_.assign(static_cast<std::size_t>(2 * count_), 0.0f);
  }

  void RunStep(int step) {
    std::vector<double> sums(static_cast<std::size_t>(count_), 0.0);
    for (int micro_batch = 0; micro_batch < training_.gradient_accumulation; ++micro_batch) {
      const PlainPasses::Seeds seeds =
          passes_.apart() ? PlainPasses::Seeds() : passes_.Of(step, micro_batch);
      for (int rank = 0; rank < passes_.ranks(); ++rank) {
        AddGradients({step, micro_batch, rank}, seeds, sums);
      }
    }
    Update(step, Means(sums));
  }

  const Weights& weights() const { return weights_; }

 private:
  // The backward pass of a micro-batch on a rank.
  struct Backward {
    int step, micro_batch, rank;
  };

  // Numbers the elements through one rank's model, for each part into which tensors are split.
  void NumberElements() {
    std::int64_t elements = 0;
    for (const model::Tensor& tensor : local_.tensors) {
      first_elements_.push_back(elements);
      elements += tensor.elements;
      most_parts_ = std::max(most_parts_, Parts(tensor, grids_));
    }
    own_ = local_.parameter_count();
    count_ = own_ * most_parts_;
  }

  void MarkUsed() {
    weights_.used.assign(static_cast<std::size_t>(count_), true);
    for (std::size_t t = 0; t < local_.tensors.size(); ++t) {
      for (std::int64_t part = Parts(local_.tensors[t], grids_); part < most_parts_; ++part) {
        const auto begin = weights_.used.begin() + part * own_ + first_elements_[t];
        std::fill(begin, begin + local_.tensors[t].elements, false);
      }
    }
  }

  void AddGradients(const Backward& backward, const PlainPasses::Seeds& seeds,
                    std::vector<double>& sums) const {
    const auto [step, micro_batch, rank] = backward;
    const parallel::RankGrid::Coordinates at = grids_.At(rank);
    const std::uint32_t alone = values::SmallIntegerSeed(rank, step, micro_batch);
    const std::uint32_t quadratic =
        values::QuadraticSeed(grids_.Layout(parallel::kData).Index(rank), micro_batch);
    for (std::size_t l = 0; l < local_.layers.size(); ++l) {
      const model::Layer& layer = local_.layers[l];
      for (std::size_t position = 0; position < layer.tensors.size(); ++position) {
        const auto t = static_cast<std::size_t>(layer.tensors[position]);
        const model::Tensor& tensor = local_.tensors[t];
        if (!Contributes(scenario_.plan, tensor, at)) continue;
        const std::uint32_t small_integers =
            passes_.apart() ? alone : seeds[static_cast<std::size_t>(rank)][l][position];
        const DataType type = TypeRead(scenario_, layer, tensor);
        const std::int64_t first = first_elements_[t] + model::PartOf(tensor, grids_, at) * own_;
        for (std::int64_t e = first; e < first + tensor.elements; ++e) {
          const float read = Rounded(weights_.parameters[e], type);
          sums[e] += gradients_ == Gradients::kSmallIntegers
                         ? values::SmallIntegerGradient(read, small_integers, e)
                         : values::QuadraticGradient(read, quadratic, e);
        }
      }
    }
  }

  // The average over ranks and micro-batches, clipped.
  std::vector<float> Means(const std::vector<double>& sums) const {
    const auto addends =
        static_cast<double>(plan::GradientRanks(scenario_.plan) * training_.gradient_accumulation);
    std::vector<float> means;
    for (const double sum : sums) means.push_back(static_cast<float>(sum / addends));
    if (training_.gradient_clipping) {
      const float squares = static_cast<float>(
          values::SumOfSquares(means.data(), static_cast<std::int64_t>(means.size())));
      const float factor =
          values::ClipFactor(squares, static_cast<float>(*training_.gradient_clipping));
      const DataType type = TypeClipped(scenario_);
      for (float& mean : means) mean = Rounded(values::Multiply(factor, mean), type);
    }
    return means;
  }

  // Without a master copy the parameters themselves are updated, and moments are rounded in the
  // same way.
  void Update(int step, const std::vector<float>& means) {
    for (std::int64_t e = 0; e < count_; ++e) {
      float& master = weights_.masters[e];
      master =
          training_.optimizer != plan::Optimizer::kSgd
              ? values::Updated(values::AdamWOf(step + 1), master, means[e], &moments_[e], count_)
              : values::Updated(values::SgdOf(), master, means[e], &moments_[e], count_);
      master = Rounded(master, updated_);
      moments_[e] = Rounded(moments_[e], updated_);
      moments_[count_ + e] = Rounded(moments_[count_ + e], updated_);
      weights_.parameters[e] = Rounded(master, training_.parameter_dtype);
    }
  }

  const scenario::Scenario& scenario_;
  const plan::Training& training_;
  Gradients gradients_;
  PlainPasses passes_;
  parallel::Grids grids_;
  model::Model local_;
  DataType updated_;
  std::vector<std::int64_t> first_elements_;  // by tensor
  std::int64_t most_parts_ = 1;
  std::int64_t own_ = 0;    // elements of one rank's model
  std::int64_t count_ = 0;  // of all elements
  Weights weights_;
  std::vector<float> moments_;
};

}  // namespace

Weights TrainPlainly(const scenario::Scenario& scenario, Gradients gradients, int steps,
                     std::uint64_t seed) {
  PlainTraining training(scenario, gradients, seed);
  for (int step = 0; step < steps; ++step) training.RunStep(step);
  return training.weights();
}

namespace {

bool IsPowerOfTwo(std::int64_t number) { return (number & (number - 1)) == 0; }

// Whether the sum of the squares of all averages, and so the clipping factor, is exact in FP32 in
// any order. An average is a multiple of 1 / addends, and at most twice a rank's gradient (a tied
// tensor has two contributions).
bool ClipsExactly(const scenario::Scenario& scenario, std::int64_t addends) {
  if (!scenario.plan.training.gradient_clipping) return true;
  constexpr double kExactInFp32 = 1 << 24;
  const double largest = 2.0 * runtime::values::kLargestSmallInteger * static_cast<double>(addends);
  return static_cast<double>(scenario.model->parameter_count()) * largest * largest <= kExactInFp32;
}

// An exact average needs a power of two as divisor, and sums that the communicated type holds: at
// most 64 addends of up to 4 in bf16.
double BoundOf(const scenario::Scenario& scenario, int steps) {
  const plan::Training& training = scenario.plan.training;
  const std::int64_t addends =
      plan::GradientRanks(scenario.plan) * training.gradient_accumulation *
      (plan::AddsUpPartsOfTokens(scenario.plan) ? scenario.plan.parallelism.tensor : 1);
  constexpr std::int64_t kExactAddends = 64;
  if (IsPowerOfTwo(addends) && addends <= kExactAddends && ClipsExactly(scenario, addends)) {
    return 0;
  }
  // A gradient is at most kLargestSmallInteger; see optimizers.h.
  namespace values = runtime::values;
  const double largest = training.optimizer != plan::Optimizer::kSgd
                             ? (1 - values::kBeta1) / std::sqrt(1 - values::kBeta2)
                             : values::kLargestSmallInteger / (1 - values::kMomentum);
  return 2 * values::kLearningRate * (largest + values::kWeightDecay) * steps;
}

}  // namespace

runtime::Attempt<std::string> ReadWeights(const program::Program& program,
                                          runtime::Device& device) {
  messaging::ByteWriter writer;
  for (const program::StatePart& part : program.data_flow.state) {
    if (part.role == program::StateRole::kMoment) continue;
    const auto values = device.Read(part.place, part.elements);
    if (!values) return tl::unexpected(values.error());
    writer.Number(part.role == program::StateRole::kMaster ? 2 : 1);
    writer.Signed(part.first_element);
    writer.Text({reinterpret_cast<const char*>(values->data()), values->size() * sizeof(float)});
  }
  writer.Number(0);
  return writer.Take();
}

runtime::Attempt<TrainingCheck> CheckTraining(const scenario::Scenario& scenario,
                                              const std::vector<std::string>& weights, int steps,
                                              std::uint64_t seed) {
  const Weights plain = TrainPlainly(scenario, Gradients::kSmallIntegers, steps, seed);
  TrainingCheck check;
  check.elements = static_cast<std::int64_t>(plain.parameters.size());
  check.bound = BoundOf(scenario, steps);
  std::vector<bool> seen(plain.parameters.size());
  for (std::size_t e = 0; e < seen.size(); ++e) seen[e] = !plain.used[e];
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    messaging::ByteReader reader(weights[rank]);
    for (;;) {
      const auto role = reader.Number();
      if (role == 0) break;
      const auto first = static_cast<std::size_t>(reader.Signed());
      const std::string bytes = reader.Text();
      const std::size_t count = bytes.size() / sizeof(float);
      if (first > seen.size() || count > seen.size() - first) {
        return tl::unexpected(
            runtime::Failure{fmt::format("rank {} sent more elements than the model has", rank)});
      }
      const std::vector<float>& expected = role == 2 ? plain.masters : plain.parameters;
      for (std::size_t i = 0; i < count; ++i) {
        float value = 0;
        std::copy_n(bytes.data() + i * sizeof(float), sizeof(float),
                    reinterpret_cast<char*>(&value));
        const float right = expected[first + i];
        const double off = std::abs(static_cast<double>(value) - static_cast<double>(right));
        const bool same = check.bound == 0 ? std::bit_cast<std::uint32_t>(value) ==
                                                 std::bit_cast<std::uint32_t>(right)
                                           : off <= check.bound;
        seen[first + i] = true;
        check.compared += 1;
        check.furthest = std::max(check.furthest, off);
        if (same) continue;
        if (check.wrong == 0) {
          check.example =
              fmt::format("the {} of element {} on rank {} is {}, but must be {}",
                          role == 2 ? "master copy" : "parameter", first + i, rank, value, right);
        }
        check.wrong += 1;
      }
    }
    if (reader.bad()) {
      return tl::unexpected(
          runtime::Failure{fmt::format("rank {} sent incomplete parameters", rank)});
    }
  }
  const auto gap = std::find(seen.begin(), seen.end(), false);
  if (gap != seen.end()) {
    check.missing = fmt::format("no rank sent element {}", gap - seen.begin());
  }
  return check;
}

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
