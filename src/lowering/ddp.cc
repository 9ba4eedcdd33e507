#include "src/lowering/ddp.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "src/lowering/buckets.h"
#include "src/lowering/comm_hook.h"
#include "src/lowering/effects.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/framework_update.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/memory_kernels.h"
#include "src/lowering/model_state.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/training_step.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

struct ReducerBucket {
  Index buffer = kNone;
  Index collective = kNone;
  Index ready = kNone, reduced = kNone;  // events
  std::span<const int> tensors;
  int missing = 0;  // gradients still to be copied in
};

struct Parameter {
  Bytes size;  // of the gradient
  int bucket = -1;
  Bytes offset;                              // of the slot in the bucket
  Index copy_in = kNone, copy_back = kNone;  // kernels
  Index cast_gradient = kNone;               // autocast: from the compute type
};

// Autocast: the copies in the compute type that a layer's matrix products read. Autograd keeps them
// for backward.
struct CastWeights {
  Index buffer = kNone;
  std::vector<Index> kernels;
  std::vector<int> tensors;           // of the kernels
  std::vector<std::int64_t> offsets;  // elements, in the buffer
};

class Ddp final : public Technique {
 public:
  explicit Ddp(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        plan_(step.plan()),
        views_(plan_.data_parallel.gradient_as_bucket_view),
        copies_(builder_),
        gradients_(step, plan_.training.gradient_dtype),
        clipping_(step),
        hook_(step) {}

  void WritePrologue() override {
    reduction_ = builder_.AddStream("nccl data");
    communicator_ = builder_.AddCommunicator("data", ProcessGroupsOf(plan_, step_.rank()).data);
    AllocateFrameworkWorkspaces(step_, {step_.compute()});
    clipping_.WritePrologue(kNone);
    AddParameters();
    if (Autocasts()) AddCasts();
    if (communicator_ != kNone) hook_.WritePrologue(reduction_, communicator_);
    AddBuckets();
    if (plan_.data_parallel.find_unused_parameters && communicator_ != kNone) AddUsageMap();
  }

  void BeforeForward(int layer) override {
    if (casts_.empty() || casts_[layer].kernels.empty()) return;
    const CastWeights& cast = casts_[layer];
    builder_.Allocate(step_.compute(), cast.buffer);
    for (std::size_t i = 0; i < cast.kernels.size(); ++i) {
      const int tensor = cast.tensors[i];
      builder_.With(Move(At(cast.buffer, cast.offsets[i], ComputeType()), ParameterPlace(tensor),
                         Elements(tensor)));
      builder_.Run(step_.compute(), cast.kernels[i],
                   {builder_.ReadsAll(parameters_buffer_), builder_.WritesAll(cast.buffer)});
    }
  }
  void AfterForward(int) override {}
  void BeforeBackward(int) override {}
  void AfterBackward(int layer) override {
    if (casts_.empty() || casts_[layer].kernels.empty()) return;
    builder_.Release(casts_[layer].buffer);
  }

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    for (const int tensor : step_.model().layers[layer].tensors) {
      uses.push_back(
          Reads(parameters_buffer_, parameter_offset_[tensor], parameters_[tensor].size));
    }
  }

  // Under autocast a gradient is made in the compute type and cast up where it lies. Its values are
  // described in the type that it ends up in; the cast then changes nothing.
  void WriteGradient(int layer, int tensor) override {
    gradients_.Write(tensor, ReadPlace(layer, tensor));
  }

  void GradientReady(int tensor) override {
    Parameter& parameter = parameters_[tensor];
    if (parameter.cast_gradient != kNone) {
      builder_.Run(step_.compute(), parameter.cast_gradient, {gradients_.Written(tensor)});
    }
    gradients_.Complete(tensor);
    if (!step_.last_micro_batch() || communicator_ == kNone) return;
    ReducerBucket& bucket = buckets_[parameter.bucket];
    // A communication hook divides for itself.
    const double ranks = hook_.active() ? 1 : static_cast<double>(plan_.parallelism.data);
    if (builder_.describes_data_flow()) {
      builder_.With(
          Scaled(1.0 / ranks, Move(SlotPlace(tensor), gradients_.place(tensor), Elements(tensor))));
    }
    builder_.Run(step_.compute(), parameter.copy_in,
                 {builder_.ReadsAll(gradients_.buffer(tensor)),
                  Writes(bucket.buffer, parameter.offset, parameter.size)});
    if (views_) gradients_.Release(tensor);
    if (--bucket.missing == 0) {
      bucket.missing = static_cast<int>(bucket.tensors.size());
      builder_.Record(step_.compute(), bucket.ready);
      full_[parameter.bucket] = true;
      LaunchInOrder();
    }
  }

  void EndBackward() override {
    if (!step_.last_micro_batch() || communicator_ == kNone) return;
    if (usage_map_ != kNone) {
      builder_.WaitForStream(reduction_, step_.compute(), usage_event_);
      const auto map = At(usage_buffer_, 0, DataType::kFp32);
      builder_.With(Collected(map, map, builder_.SizeOf(usage_buffer_).count() / 4));
      builder_.Communicate(reduction_, usage_map_, {builder_.WritesAll(usage_buffer_)});
      builder_.Record(reduction_, usage_event_);
    }
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const ReducerBucket& bucket = buckets_[i];
      builder_.Wait(step_.compute(), bucket.reduced);
      if (hook_.active()) hook_.Release(i);
      if (views_) continue;
      for (const int tensor : bucket.tensors) {
        const Parameter& parameter = parameters_[tensor];
        if (builder_.describes_data_flow()) {
          builder_.With(Move(gradients_.place(tensor), SlotPlace(tensor), Elements(tensor)));
        }
        builder_.Run(step_.compute(), parameter.copy_back,
                     {Reads(bucket.buffer, parameter.offset, parameter.size),
                      builder_.WritesAll(gradients_.buffer(tensor))});
      }
    }
    if (usage_map_ != kNone) builder_.Wait(step_.compute(), usage_event_);
    next_bucket_ = 0;
    std::fill(full_.begin(), full_.end(), false);
  }

  void WriteUpdate() override {
    std::vector<BufferUse> uses;
    const int tensors = Tensors();
    for (int tensor = 0; tensor < tensors; ++tensor) {
      if (gradients_.exists(tensor)) uses.push_back(builder_.ReadsAll(gradients_.buffer(tensor)));
    }
    if (views_) {
      for (const ReducerBucket& bucket : buckets_) uses.push_back(builder_.ReadsAll(bucket.buffer));
    }
    const std::int64_t count = step_.model().parameter_count();
    ClipGradients(uses, count);
    uses.push_back(builder_.WritesAll(optimizer_));
    uses.push_back(builder_.WritesAll(parameters_buffer_));
    std::vector<program::Effect> updates;
    for (int tensor = 0; builder_.describes_data_flow() && tensor < tensors; ++tensor) {
      AppendJoined(updates,
                   OptimizerUpdate(ParameterPlace(tensor), GradientPlace(tensor),
                                   At(optimizer_, step_.first_element(tensor), DataType::kFp32),
                                   count, Elements(tensor)));
    }
    UpdatedTensors updated{.elements = count, .tensors = {}};
    for (int tensor = 0; tensor < tensors; ++tensor) {
      if (Elements(tensor) == 0) continue;
      updated.tensors.push_back({.tensor = tensor, .elements = Elements(tensor)});
    }
    WriteFrameworkUpdate(step_, plan_.training, updated, uses, updates);
    // zero_grad(set_to_none=True)
    for (int tensor = 0; tensor < tensors; ++tensor) {
      if (gradients_.exists(tensor)) gradients_.Release(tensor);
    }
  }

 private:
  // Where a gradient is at the end of the step.
  program::Elements GradientPlace(int tensor) const {
    return gradients_.exists(tensor) ? gradients_.place(tensor) : SlotPlace(tensor);
  }

  void ClipGradients(const std::vector<BufferUse>& gradients, std::int64_t count) {
    std::vector<ClippedRange> ranges;
    for (int tensor = 0; builder_.describes_data_flow() && tensor < Tensors(); ++tensor) {
      if (Elements(tensor) > 0) ranges.push_back({GradientPlace(tensor), Elements(tensor)});
    }
    clipping_.Write(Tensors(), count, plan_.training.gradient_dtype, gradients, ranges);
  }

  bool Autocasts() const { return plan_.training.autocast && !step_.model().is_layer_list(); }
  DataType ComputeType() const { return plan::ComputeType(plan_.training.precision); }

  int Tensors() const { return static_cast<int>(parameters_.size()); }
  std::int64_t Elements(int tensor) const { return step_.model().tensors[tensor].elements; }
  program::Elements ParameterPlace(int tensor) const {
    return At(parameters_buffer_, step_.first_element(tensor), plan_.training.parameter_dtype);
  }
  program::Elements SlotPlace(int tensor) const {
    const Parameter& parameter = parameters_[tensor];
    return {buckets_[parameter.bucket].buffer, parameter.offset, plan_.training.gradient_dtype};
  }
  // Where the layer's kernels read the tensor.
  program::Elements ReadPlace(int layer, int tensor) const {
    if (!casts_.empty()) {
      const CastWeights& cast = casts_[layer];
      const auto found = std::find(cast.tensors.begin(), cast.tensors.end(), tensor);
      if (found != cast.tensors.end()) {
        return At(cast.buffer, cast.offsets[found - cast.tensors.begin()], ComputeType());
      }
    }
    return ParameterPlace(tensor);
  }

  Index CopyKernel(const char* name, Bytes read, Bytes written) {
    return copies_.Add(name, plan_.training.gradient_dtype, read, written);
  }

  void AddParameters() {
    const model::Model& model = step_.model();
    const plan::Training& training = plan_.training;
    const std::int64_t count = model.parameter_count();
    parameters_buffer_ = builder_.AddBuffer("parameters", BytesOf(count, training.parameter_dtype),
                                            Category::kParameter);
    optimizer_ = builder_.AddBuffer("optimizer states",
                                    Bytes(count * plan::OptimizerBytesPerParameter(training)),
                                    Category::kOptimizer);
    builder_.Allocate(step_.compute(), parameters_buffer_);
    builder_.Allocate(step_.compute(), optimizer_);
    AddParameterState(step_, At(parameters_buffer_, 0, training.parameter_dtype), 0, count);
    AddOptimizerState(step_, At(optimizer_, 0, DataType::kFp32), count, 0, count);
    Bytes offset(0);
    for (const model::Tensor& tensor : model.tensors) {
      parameter_offset_.push_back(offset);
      offset += BytesOf(tensor.elements, training.parameter_dtype);
      Parameter& parameter = parameters_.emplace_back();
      parameter.size = BytesOf(tensor.elements, training.gradient_dtype);
    }
  }

  // Vectors (biases, norms) and what is only looked up stay as they are.
  void AddCasts() {
    const model::Model& model = step_.model();
    for (const model::Layer& layer : model.layers) {
      CastWeights& cast = casts_.emplace_back();
      Bytes size;
      for (const int index : layer.tensors) {
        const model::Tensor& tensor = model.tensors[index];
        if (tensor.shape.size() < 2 || layer.kind == model::LayerKind::kEmbedding) continue;
        const Bytes copy = BytesOf(tensor.elements, ComputeType());
        cast.tensors.push_back(index);
        cast.offsets.push_back(size.count() / SizeOf(ComputeType()));
        size += copy;
        cast.kernels.push_back(
            CopyKernel("autocast", BytesOf(tensor.elements, plan_.training.parameter_dtype), copy));
        Parameter& parameter = parameters_[index];
        if (parameter.cast_gradient == kNone) {
          parameter.cast_gradient = CopyKernel("autocast_gradient", copy, parameter.size);
        }
      }
      cast.buffer = builder_.AddBuffer(builder_.Named(layer.name, "/autocast weights"), size,
                                       Category::kActivation);
    }
  }

  // Of a warm run, in launch order.
  std::vector<Bucket> BucketsOfModel() {
    const model::Model& model = step_.model();
    const Bytes limit = *plan_.data_parallel.bucket_size;
    const Bytes first_limit = *plan_.data_parallel.first_bucket_size;
    const std::int64_t bytes = SizeOf(plan_.training.gradient_dtype);
    if (!plan_.data_parallel.find_unused_parameters) {
      order_ = GradientReadyOrder(model, step_.works());
      return AssignBuckets(model, order_, bytes, first_limit, limit);
    }
    order_.resize(model.tensors.size());  // that of definition
    std::iota(order_.begin(), order_.end(), 0);
    auto buckets = AssignBuckets(model, order_, bytes, first_limit, limit);
    std::reverse(buckets.begin(), buckets.end());
    return buckets;
  }

  void AddBuckets() {
    if (communicator_ == kNone) return;
    for (const Bucket& tensors : BucketsOfModel()) {
      const Index name = builder_.AddNumbered("bucket ", buckets_.size());
      ReducerBucket& bucket = buckets_.emplace_back();
      const DataType type = plan_.training.gradient_dtype;
      const Bytes size = BytesOf(tensors.elements, type);
      bucket.buffer = builder_.AddBuffer({.first = name}, size, Category::kGradient);
      builder_.Allocate(step_.compute(), bucket.buffer);
      bucket.collective = builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                                  .communicator = communicator_,
                                                  .bytes = size,
                                                  .data_type = type});
      hook_.AddBucket(bucket.buffer, tensors.tensors, type);
      bucket.ready = builder_.AddEvent(builder_.Named(name, " ready"));
      bucket.reduced = builder_.AddEvent(builder_.Named(name, " reduced"));
      bucket.tensors = tensors.tensors;
      bucket.missing = static_cast<int>(bucket.tensors.size());
      Bytes offset(0);
      for (const int tensor : bucket.tensors) {
        Parameter& parameter = parameters_[tensor];
        parameter.bucket = static_cast<int>(buckets_.size()) - 1;
        parameter.offset = offset;
        offset += parameter.size;
        parameter.copy_in = CopyKernel("copy_to_bucket", parameter.size, parameter.size);
        parameter.copy_back = CopyKernel("copy_from_bucket", parameter.size, parameter.size);
      }
    }
    full_.assign(buckets_.size(), false);
  }

  void AddUsageMap() {
    const Bytes size(static_cast<std::int64_t>(step_.model().tensors.size()) * 4);
    usage_buffer_ = builder_.AddBuffer("used parameters", size, Category::kCommunication);
    builder_.Allocate(step_.compute(), usage_buffer_);
    usage_map_ = builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                         .communicator = communicator_,
                                         .bytes = size,
                                         .data_type = DataType::kFp32});
    usage_event_ = builder_.AddEvent("used parameters reduced");
  }

  // A bucket is launched when it and all before it are full.
  void LaunchInOrder() {
    while (next_bucket_ < buckets_.size() && full_[next_bucket_]) {
      const ReducerBucket& bucket = buckets_[next_bucket_++];
      if (hook_.active()) {
        hook_.Run(next_bucket_ - 1, bucket.reduced);
        continue;
      }
      builder_.Wait(reduction_, bucket.ready);
      const auto values = At(bucket.buffer, 0, plan_.training.gradient_dtype);
      builder_.With(
          Collected(values, values, builder_.SizeOf(bucket.buffer).count() / SizeOf(values.type)));
      builder_.Communicate(reduction_, bucket.collective, {builder_.WritesAll(bucket.buffer)});
      builder_.Record(reduction_, bucket.reduced);
    }
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  const bool views_;

  StreamId reduction_ = 0;
  Index communicator_ = kNone;
  Index parameters_buffer_ = kNone, optimizer_ = kNone;
  std::vector<Bytes> parameter_offset_;
  MemoryKernels copies_;
  std::vector<Parameter> parameters_;  // by tensor
  LocalGradients gradients_;
  GradientClipping clipping_;
  CommHook hook_;
  std::vector<CastWeights> casts_;  // by layer; empty without autocast
  std::vector<int> order_;          // of tensors in buckets
  std::vector<ReducerBucket> buckets_;
  std::vector<bool> full_;
  std::size_t next_bucket_ = 0;
  Index usage_map_ = kNone, usage_buffer_ = kNone, usage_event_ = kNone;
};

}  // namespace

program::Program LowerDdp(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  Ddp technique(step);
  return step.Write(technique);
}

}  // namespace stepcast::lowering
