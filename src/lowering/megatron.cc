#include "src/lowering/megatron.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/lowering/effects.h"
#include "src/lowering/flat_parameter.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/framework_update.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/memory_kernel.h"
#include "src/lowering/model_state.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/shard.h"
#include "src/lowering/tied_gradients.h"
#include "src/lowering/training_step.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

// With the distributed optimizer a parameter starts at a multiple of 64 elements and a bucket ends
// at a multiple of lcm(ranks, 128), so that parts are aligned (param_and_grad_buffer.py).
constexpr std::int64_t kParameterAlignment = 64;
constexpr std::int64_t kBucketAlignment = 128;

std::int64_t RoundedUp(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct Bucket {
  std::vector<int> tensors;   // as they lie: reverse registration order
  std::int64_t elements = 0;  // of the model
  Shard shard;                // of the padded whole
  int missing = 0;            // gradients still to come in the last micro-batch
  Index parameters = kNone, gradients = kNone, optimizer = kNone;
  Index ready = kNone, reduced = kNone;     // events
  Index updated = kNone, gathered = kNone;  // events, distributed optimizer
  Index scale = kNone;                      // kernel
  Index reduce = kNone, reduce_over_instances = kNone, gather = kNone;  // collectives
  bool gather_sent = false, gather_awaited = false;                     // in this step
};

struct Parameter {
  int bucket = 0;
  std::int64_t offset = 0;   // elements, in the bucket
  bool fused = true;         // the kernel that makes the gradient adds to the main gradient
  Index made = kNone;        // buffer: the gradient as autograd makes it
  Index add = kNone;         // kernel
  bool made_exists = false;  // this micro-batch has contributed to it
  bool reached = false;      // something of this step is in the main gradient
};

class Megatron final : public Technique {
 public:
  explicit Megatron(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        plan_(step.plan()),
        groups_(ProcessGroupsOf(plan_, step.rank())),
        distributed_(plan_.data_parallel.zero_stage == 1),
        gathers_in_forward_(plan_.data_parallel.overlap_param_gather),
        clipping_(step),
        tied_(step) {}

  void WritePrologue() override {
    communication_ = builder_.AddStream("nccl data");
    instance_stream_ = communication_;
    if (distributed_) {
      communicator_ = builder_.AddCommunicator(groups_.shard_name(), groups_.shard);
      instance_communicator_ = builder_.AddCommunicator("replica", groups_.replica);
      if (instance_communicator_ != kNone) instance_stream_ = builder_.AddStream("nccl replica");
    } else {
      communicator_ = builder_.AddCommunicator("data", groups_.data);
    }
    tied_.WritePrologue();
    AllocateFrameworkWorkspaces(step_, {step_.compute()});
    clipping_.WritePrologue(distributed_ ? communicator_ : kNone);
    AssignBuckets();
    for (std::size_t i = 0; i < buckets_.size(); ++i) AddBucket(static_cast<int>(i));
    AddSmallGradients();
    Bytes gradients;
    for (const Bucket& bucket : buckets_) gradients += builder_.SizeOf(bucket.gradients);
    zero_ = builder_.AddKernel(MemoryKernel("zero_gradients", GradientType(), Bytes(), gradients));
    if (builder_.describes_data_flow()) AddStates();
  }

  void BeginStep() override {
    for (Bucket& bucket : buckets_) bucket.gather_sent = bucket.gather_awaited = false;
    std::vector<BufferUse> uses;
    for (const Bucket& bucket : buckets_) uses.push_back(builder_.WritesAll(bucket.gradients));
    builder_.Run(step_.compute(), zero_, uses);
  }

  // The hook before a module's forward: its parameters must be there; then the next bucket's
  // gather is sent off. Buckets lie in reverse order, so the next one is the one before.
  void BeforeForward(int layer) override {
    if (!gathers_in_forward_ || communicator_ == kNone) return;
    for (const int tensor : step_.model().layers[layer].tensors) {
      const int index = parameters_[tensor].bucket;
      Bucket& bucket = buckets_[index];
      if (bucket.gather_awaited) continue;
      SendGather(bucket);
      builder_.Wait(step_.compute(), bucket.gathered);
      bucket.gather_awaited = true;
      if (index > 0) SendGather(buckets_[index - 1]);
    }
  }
  void AfterForward(int) override {}
  void BeforeBackward(int) override {}
  void AfterBackward(int) override {}

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    for (const int tensor : step_.model().layers[layer].tensors) {
      const program::Elements place = ParameterPlace(tensor);
      uses.push_back(Reads(place.buffer, place.offset, BytesOf(Elements(tensor), place.type)));
    }
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    Parameter& parameter = parameters_[tensor];
    program::Elements target = GradientPlace(tensor);
    bool add = parameter.reached;  // else zeros are there
    if (parameter.fused) {
      parameter.reached = true;
    } else {
      target = MadePlace(tensor);
      add = parameter.made_exists;
      if (!parameter.made_exists) builder_.Allocate(step_.compute(), parameter.made);
      parameter.made_exists = true;
    }
    builder_.Use(Writes(target.buffer, target.offset, BytesOf(Elements(tensor), target.type)));
    step_.WithGradient(tensor, 0, Elements(tensor), target, ParameterPlace(tensor), add);
  }

  void GradientReady(int tensor) override {
    Parameter& parameter = parameters_[tensor];
    if (!parameter.fused) AddMade(tensor);
    if (!step_.last_micro_batch() || communicator_ == kNone) return;
    Bucket& bucket = buckets_[parameter.bucket];
    if (--bucket.missing > 0) return;
    bucket.missing = static_cast<int>(bucket.tensors.size());
    if (OverlapsReduction()) Reduce(bucket);
  }

  void EndBackward() override {
    if (!step_.last_micro_batch()) return;
    for (Bucket& bucket : buckets_) {
      if (communicator_ == kNone) break;
      if (!OverlapsReduction()) Reduce(bucket);
      builder_.Wait(step_.compute(), bucket.reduced);
    }
    tied_.AddUp(step_.compute(), [this](int tensor) { return GradientPlace(tensor); });
  }

  void WriteUpdate() override {
    std::int64_t elements = 0;
    std::vector<BufferUse> uses;
    std::vector<program::Effect> updates;
    std::vector<BufferUse> gradients;
    std::vector<ClippedRange> clipped;
    for (const Bucket& bucket : buckets_) {
      elements += bucket.shard.length();
      gradients.push_back(builder_.ReadsAll(bucket.gradients));
      uses.push_back(gradients.back());
      uses.push_back(builder_.WritesAll(bucket.optimizer));
      uses.push_back(builder_.WritesAll(bucket.parameters));
      if (!builder_.describes_data_flow()) continue;
      AppendUpdates(bucket, updates);
      ForEachOwnPiece(bucket, [&](int tensor, std::int64_t first, std::int64_t count,
                                  std::int64_t /*in_part*/) {
        clipped.push_back({Further(GradientPlace(tensor), first), count, tied_.Counts(tensor)});
      });
    }
    clipping_.Write(static_cast<std::int64_t>(parameters_.size()), elements, GradientType(),
                    gradients, clipped);
    WriteFrameworkUpdate(step_, plan_.training, Updated(elements), uses, updates);
    if (!distributed_ || gathers_in_forward_ || communicator_ == kNone) return;
    for (Bucket& bucket : buckets_) {
      SendGather(bucket);
      builder_.Wait(step_.compute(), bucket.gathered);
    }
  }

 private:
  // In a pipeline without virtual stages the first stage alone reduces bucket by bucket during its
  // last backward, and has buckets; the others reduce all they have after theirs
  // (core/pipeline_parallel/schedules.py, core/distributed/distributed_data_parallel.py).
  bool OverlapsReduction() const { return plan_.data_parallel.overlap && step_.stage().first(); }

  DataType GradientType() const { return plan_.training.gradient_dtype; }
  DataType ParameterType() const { return plan_.training.parameter_dtype; }
  std::int64_t Elements(int tensor) const { return step_.model().tensors[tensor].elements; }
  std::int64_t ShardRanks() const {
    return distributed_ ? static_cast<std::int64_t>(groups_.shard.size()) : 1;
  }
  // Which part of every bucket this rank updates.
  std::int64_t OwnIndex() const { return distributed_ ? groups_.shard_index() : 0; }

  program::Elements ParameterPlace(int tensor) const {
    const Parameter& parameter = parameters_[tensor];
    return At(buckets_[parameter.bucket].parameters, parameter.offset, ParameterType());
  }
  program::Elements GradientPlace(int tensor) const {
    const Parameter& parameter = parameters_[tensor];
    return At(buckets_[parameter.bucket].gradients, parameter.offset, GradientType());
  }
  program::Elements MadePlace(int tensor) const {
    return At(parameters_[tensor].made, 0, ParameterType());
  }

  // Tensors in reverse registration order; a bucket is closed once it holds its size.
  void AssignBuckets() {
    const auto& tensors = step_.model().tensors;
    parameters_.resize(tensors.size());
    const bool cut = OverlapsReduction() && plan_.data_parallel.bucket_size.has_value();
    const std::int64_t limit =
        cut ? plan_.data_parallel.bucket_size->count() / SizeOf(GradientType())
            : std::numeric_limits<std::int64_t>::max();
    const std::int64_t ranks = ShardRanks();
    std::int64_t end = 0;  // elements of the open bucket, aligned
    const auto close = [&] {
      const std::int64_t padded =
          distributed_ ? RoundedUp(end, std::lcm(ranks, kBucketAlignment)) : end;
      buckets_.back().shard = Shard(padded, ranks);
      end = 0;
    };
    for (auto tensor = static_cast<int>(tensors.size()) - 1; tensor >= 0; --tensor) {
      if (end == 0) buckets_.emplace_back();
      Bucket& bucket = buckets_.back();
      if (distributed_) end = RoundedUp(end, kParameterAlignment);
      parameters_[tensor].bucket = static_cast<int>(buckets_.size()) - 1;
      parameters_[tensor].offset = end;
      bucket.tensors.push_back(tensor);
      bucket.elements += Elements(tensor);
      end += Elements(tensor);
      if (end >= limit) close();
    }
    if (end > 0) close();
  }

  void AddBucket(int index) {
    Bucket& bucket = buckets_[index];
    const std::string name = "bucket " + std::to_string(index);
    const auto add = [&](const char* what, std::int64_t bytes, bool whole, Category category) {
      const std::int64_t ranks = whole ? 1 : bucket.shard.ranks();
      const std::int64_t size = bucket.shard.padded() / ranks * bytes;
      const Index buffer = builder_.AddBuffer(
          name + what, Bytes(size), category,
          Bytes(std::max<std::int64_t>(size - bucket.elements * bytes / ranks, 0)));
      builder_.Allocate(step_.compute(), buffer);
      return buffer;
    };
    bucket.missing = static_cast<int>(bucket.tensors.size());
    bucket.parameters = add("/parameters", SizeOf(ParameterType()), true, Category::kParameter);
    bucket.gradients = add("/main gradients", SizeOf(GradientType()), true, Category::kGradient);
    bucket.optimizer = add("/optimizer", plan::OptimizerBytesPerParameter(plan_.training), false,
                           Category::kOptimizer);
    if (communicator_ == kNone) return;
    bucket.ready = builder_.AddEvent(name + " ready");
    bucket.reduced = builder_.AddEvent(name + " reduced");
    const Bytes size = builder_.SizeOf(bucket.gradients);
    bucket.scale = builder_.AddKernel(MemoryKernel("scale_gradients", GradientType(), size, size));
    bucket.reduce = builder_.AddCollective(
        {.kind = distributed_ ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
         .communicator = communicator_,
         .bytes = size,
         .data_type = GradientType()});
    if (!distributed_) return;
    if (instance_communicator_ != kNone) {
      bucket.reduce_over_instances =
          builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                  .communicator = instance_communicator_,
                                  .bytes = BytesOf(bucket.shard.length(), GradientType()),
                                  .data_type = GradientType()});
    }
    bucket.updated = builder_.AddEvent(name + " updated");
    bucket.gathered = builder_.AddEvent(name + " gathered");
    bucket.gather = builder_.AddCollective({.kind = CollectiveKind::kAllGather,
                                            .communicator = communicator_,
                                            .bytes = builder_.SizeOf(bucket.parameters),
                                            .data_type = ParameterType()});
  }

  // Fused are the weights of linear layers; a layer list's times hold all that there is.
  void AddSmallGradients() {
    const model::Model& model = step_.model();
    if (model.is_layer_list()) return;
    std::vector<bool> multiplied(parameters_.size(), false);
    for (const model::Layer& layer : model.layers) {
      if (layer.kind == model::LayerKind::kEmbedding) continue;
      for (const int tensor : layer.tensors) {
        if (model.tensors[tensor].shape.size() > 1) multiplied[tensor] = true;
      }
    }
    for (std::size_t t = 0; t < parameters_.size(); ++t) {
      if (multiplied[t]) continue;
      Parameter& parameter = parameters_[t];
      const model::Tensor& tensor = model.tensors[t];
      parameter.fused = false;
      const Bytes made = BytesOf(tensor.elements, ParameterType());
      const Bytes kept = BytesOf(tensor.elements, GradientType());
      parameter.made = builder_.AddBuffer(tensor.name + ".grad", made, Category::kGradient);
      parameter.add = builder_.AddKernel(
          MemoryKernel("add_to_main_gradient", GradientType(), made + kept, kept));
    }
  }

  // The hook of a gradient that autograd made: adds it to the main gradient and lets it go.
  void AddMade(int tensor) {
    Parameter& parameter = parameters_[tensor];
    const program::Effect move = Move(GradientPlace(tensor), MadePlace(tensor), Elements(tensor));
    builder_.With(parameter.reached ? Added(move) : move);
    parameter.reached = true;
    const program::Elements target = GradientPlace(tensor);
    builder_.Run(step_.compute(), parameter.add,
                 {builder_.ReadsAll(parameter.made),
                  Writes(target.buffer, target.offset, BytesOf(Elements(tensor), target.type))});
    builder_.Release(parameter.made);
    parameter.made_exists = false;
  }

  void Reduce(Bucket& bucket) {
    const program::Elements whole = At(bucket.gradients, 0, GradientType());
    if (builder_.describes_data_flow()) {
      std::vector<program::Effect> scaled;
      const double factor = 1.0 / static_cast<double>(plan_.parallelism.data);
      for (const int tensor : bucket.tensors) {
        const program::Elements place = GradientPlace(tensor);
        AppendJoined(scaled, Scaled(factor, Move(place, place, Elements(tensor))));
      }
      builder_.With(scaled);
    }
    builder_.Run(step_.compute(), bucket.scale, {builder_.WritesAll(bucket.gradients)});
    builder_.WaitForStream(communication_, step_.compute(), bucket.ready);
    const program::Elements own = Further(whole, OwnIndex() * bucket.shard.length());
    builder_.With(Collected(own, whole, bucket.shard.padded()));
    builder_.Communicate(communication_, bucket.reduce, {builder_.WritesAll(bucket.gradients)});
    if (bucket.reduce_over_instances != kNone) {
      builder_.WaitForStream(instance_stream_, communication_, bucket.ready);
      builder_.With(Collected(own, own, bucket.shard.length()));
      builder_.Communicate(instance_stream_, bucket.reduce_over_instances,
                           {builder_.WritesAll(bucket.gradients)});
    }
    builder_.Record(instance_stream_, bucket.reduced);
  }

  void SendGather(Bucket& bucket) {
    if (bucket.gather_sent) return;
    bucket.gather_sent = true;
    builder_.WaitForStream(communication_, step_.compute(), bucket.updated);
    const program::Elements whole = At(bucket.parameters, 0, ParameterType());
    builder_.With(Collected(whole, Further(whole, OwnIndex() * bucket.shard.length()),
                            bucket.shard.padded()));
    builder_.Communicate(communication_, bucket.gather, {builder_.WritesAll(bucket.parameters)});
    builder_.Record(communication_, bucket.gathered);
  }

  // Calls function(tensor, first, elements, in_part): what of the bucket's tensors lies in this
  // rank's part; `first` counts from the tensor's start, `in_part` from the part's.
  template <typename Function>
  void ForEachOwnPiece(const Bucket& bucket, Function function) const {
    const std::int64_t begin = OwnIndex() * bucket.shard.length();
    const std::int64_t end = begin + bucket.shard.length();
    for (const int tensor : bucket.tensors) {
      const std::int64_t offset = parameters_[tensor].offset;
      const std::int64_t first = std::max(begin, offset);
      const std::int64_t last = std::min(end, offset + Elements(tensor));
      if (first < last) function(tensor, first - offset, last - first, first - begin);
    }
  }

  // The optimizer has the parts of parameters that lie in a rank's part of the buckets: here those
  // of the rank with most of them, for which the others wait.
  UpdatedTensors Updated(std::int64_t elements) const {
    std::vector<FlatParameter> flat;
    for (const Bucket& bucket : buckets_) {
      FlatParameter& of_bucket =
          flat.emplace_back(FlatParameter{.shard = bucket.shard.length(), .ranks = ShardRanks()});
      for (const int tensor : bucket.tensors) {
        if (Elements(tensor) == 0) continue;
        of_bucket.tensors.push_back(
            {.tensor = tensor, .elements = Elements(tensor), .offset = parameters_[tensor].offset});
      }
    }
    std::vector<const FlatParameter*> buckets;
    for (const FlatParameter& bucket : flat) buckets.push_back(&bucket);
    const std::int64_t fullest = FullestRank(buckets);
    std::vector<ShardPart> parts;
    for (const FlatParameter& bucket : flat) {
      const std::vector<ShardPart> own = PartsOf(bucket, fullest);
      parts.insert(parts.end(), own.begin(), own.end());
    }
    std::sort(parts.begin(), parts.end(),
              [](const ShardPart& a, const ShardPart& b) { return a.tensor < b.tensor; });
    UpdatedTensors updated{.elements = elements, .tensors = {}};
    for (const ShardPart& part : parts) {
      updated.tensors.push_back({.tensor = part.tensor, .elements = part.elements});
    }
    return updated;
  }

  void AppendUpdates(const Bucket& bucket, std::vector<program::Effect>& updates) const {
    ForEachOwnPiece(
        bucket, [&](int tensor, std::int64_t first, std::int64_t elements, std::int64_t in_part) {
          AppendJoined(updates, OptimizerUpdate(Further(ParameterPlace(tensor), first),
                                                Further(GradientPlace(tensor), first),
                                                At(bucket.optimizer, in_part, DataType::kFp32),
                                                bucket.shard.length(), elements));
        });
  }

  // Parameters that the next forward gathers are, between steps, up to date in the rank's own part
  // alone.
  void AddStates() {
    for (const Bucket& bucket : buckets_) {
      if (!gathers_in_forward_) {
        for (const int tensor : bucket.tensors) {
          AddParameterState(step_, ParameterPlace(tensor), step_.first_element(tensor),
                            Elements(tensor));
        }
      }
      ForEachOwnPiece(
          bucket, [&](int tensor, std::int64_t first, std::int64_t elements, std::int64_t in_part) {
            const std::int64_t element = step_.first_element(tensor) + first;
            if (gathers_in_forward_) {
              AddParameterState(step_, Further(ParameterPlace(tensor), first), element, elements);
            }
            AddOptimizerState(step_, At(bucket.optimizer, in_part, DataType::kFp32),
                              bucket.shard.length(), element, elements);
          });
    }
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  const ProcessGroups groups_;
  const bool distributed_;
  const bool gathers_in_forward_;
  StreamId communication_ = 0, instance_stream_ = 0;
  Index communicator_ = kNone, instance_communicator_ = kNone;
  Index zero_ = kNone;
  std::vector<Bucket> buckets_;        // in launch order
  std::vector<Parameter> parameters_;  // by tensor
  GradientClipping clipping_;
  TiedGradients tied_;
};

}  // namespace

program::Program LowerMegatron(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  Megatron technique(step);
  return step.Write(technique);
}

}  // namespace stepcast::lowering
