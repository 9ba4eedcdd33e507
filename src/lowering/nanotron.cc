#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/lowering/framework_steps.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/gradients.h"
#include "src/lowering/layouts.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

class Nanotron final : public FrameworkStrategy {
 public:
  explicit Nanotron(TrainingStep& step)
      : FrameworkStrategy(step),
        groups_(ProcessGroupsOf(step.grids(), step.rank())),
        sharded_(plan_.data_parallel.zero_stage == 1 && groups_.data.size() > 1),
        ddp_(plan_.data_parallel.zero_stage == 0 && groups_.data.size() > 1),
        type_(plan_.training.parameter_dtype),
        fp32_(plan_.training),
        gradients_(step, operations_, type_),
        halves_(step, operations_),
        sums_(step, operations_),
        clipping_(step),
        tied_(step) {
    fp32_.parameter_dtype = DataType::kFp32;
  }

  void WritePrologue() override {
    communication_ = builder_.AddStream("nccl data");
    communicator_ = builder_.AddCommunicator("data", groups_.data);
    tied_.WritePrologue();
    AllocateFrameworkWorkspaces(step_);
    clipping_.WritePrologue(kNone);
    AddBuckets();
    AddStates();
    updated_ = builder_.AddEvent("updated");
    gathered_ = builder_.AddEvent("parameters gathered");
    reached_.assign(step_.model().tensors.size(), false);
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    gradients_.Write(tensor, Parameter(tensor).place);
  }

  void GradientReady(int tensor) override {
    if (!HasHook()) return;
    operations_.Copy(step_.compute(), "copy_to_bucket", halves_.Slot(tensor),
                     gradients_.range(tensor));
    if (!halves_.Fill(tensor)) return;
    halves_.LaunchInOrder(halves_.bucket_of(tensor), [this](std::size_t bucket) {
      for (const int own : halves_[bucket].tensors) Accumulate(own, halves_.Slot(own));
      sums_.Ready(bucket);
      sums_.Reduce(bucket, true);
    });
  }

  void EndBackward() override {
    for (std::size_t bucket = 0; HasHook() && bucket < halves_.size(); ++bucket) {
      for (const int tensor : halves_[bucket].tensors) {
        operations_.Copy(step_.compute(), "copy_from_bucket", gradients_.range(tensor),
                         halves_.Slot(tensor));
      }
    }
    for (int tensor = 0; tensor < Tensors(); ++tensor) {
      if (!HasHook()) Accumulate(tensor, gradients_.range(tensor));
      gradients_.Release(tensor);
    }
    if (!step_.last_pass()) return;
    if (communicator_ != kNone && sums_.size() > 0) {
      if (sharded_) {
        sums_.Ready(0);
        sums_.Reduce(0, true);
      }
      sums_.Await(sums_.size() - 1);
      halves_.EndLaunches();
    }
    tied_.AddUp(step_.compute(), [this](int tensor) { return sums_.Slot(tensor).place; });
  }

  void WriteUpdate() override {
    ClipGradients();
    if (Tensors() == 0) return;  // a stage without parameters
    Update();
    if (sharded_) GatherParameters();
    sums_.Zero();
    reached_.assign(reached_.size(), false);
  }

 private:
  // Whether DDP reduces gradients in this backward.
  bool HasHook() const { return ddp_ && step_.last_pass(); }
  Range Parameter(int tensor) const override {
    return parameters_.Part(offsets_[tensor], Elements(tensor));
  }
  // The part of a whole tensor, or of its gradient, that this rank updates.
  Range Own(const Range& whole, const BlockLayout::Block& block) const {
    const Piece own = slices_.Own(block, OwnIndex());
    return {whole.At(std::min(own.first, whole.elements)), own.elements, sharded_};
  }
  std::int64_t OwnIndex() const { return sharded_ ? groups_.data.Index(groups_.rank) : 0; }
  std::int64_t Ranks() const { return sharded_ ? groups_.data.size() : 1; }

  Range Kept(const char* name, std::int64_t elements, DataType type, Category category,
             std::int64_t exact) {
    const Range range =
        operations_.AddRange({.first = builder_.AddText(name)}, elements, type, category, exact);
    operations_.Allocate(step_.compute(), range);
    return range;
  }

  // DDP's buckets, and the same tensors in FP32; without DDP all tensors share one bucket.
  void AddBuckets() {
    sums_.SetGroup(communication_, communicator_);
    halves_.SetGroup(communication_, kNone);
    if (ddp_) {
      order_ = GradientReadyOrder(step_.model(), step_.works(), step_.work_of_layers());
      for (const Bucket& bucket : AssignBuckets(step_.model(), order_, SizeOf(type_),
                                                *plan_.data_parallel.first_bucket_size,
                                                *plan_.data_parallel.bucket_size)) {
        AddBucket(bucket.tensors, bucket.elements);
      }
      return;
    }
    order_ = AllTensors();
    if (!order_.empty()) AddBucket(order_, step_.model().parameter_count());
  }

  void AddBucket(std::span<const int> tensors, std::int64_t elements) {
    const auto add = [&](GradientBuckets& buckets, const char* what, DataType type) {
      operations_.Allocate(step_.compute(),
                           buckets.Add(tensors, Packed(elements), what, type, 0).gradients);
    };
    if (ddp_) add(halves_, "", type_);
    add(sums_, "/FP32 gradients", DataType::kFp32);
  }

  void AddStates() {
    const model::Model& model = step_.model();
    const std::int64_t count = model.parameter_count();
    std::vector<std::int64_t> lengths;
    std::int64_t offset = 0;
    for (const model::Tensor& tensor : model.tensors) {
      offsets_.push_back(offset);
      offset += tensor.elements;
      lengths.push_back(ShardLength(tensor.elements, Ranks()));
    }
    const std::vector<int> all = AllTensors();
    slices_ = BlockLayout(model, all, lengths, Ranks());
    parameters_ = Kept("parameters", count, type_, Category::kParameter, count);
    for (const int tensor : all) {
      AddParameterState(step_, Parameter(tensor).place, step_.first_element(tensor),
                        Elements(tensor));
    }
    states_ =
        AddOptimizerStates(step_, operations_, {.first = builder_.AddText("optimizer states")},
                           {slices_.shard(), count, Ranks()}, {});
    operations_.Allocate(step_.compute(), states_);
    for (const BlockLayout::Block& block : slices_.blocks()) {
      const Piece own = slices_.Own(block, OwnIndex());
      AddOptimizerState(step_, states_.At(own.offset), slices_.shard(),
                        step_.first_element(block.tensor) + own.first, own.elements);
    }
  }

  void Accumulate(int tensor, const Range& gradient) {
    operations_.Accumulate(step_.compute(), "add_to_fp32_gradient", sums_.Slot(tensor), gradient,
                           reached_[tensor]);
    reached_[tensor] = true;
  }

  // Clips the whole gradients of all tensors.
  void ClipGradients() {
    std::vector<BufferUse> uses;
    std::vector<ClippedRange> ranges;
    for (const GradientBucket& bucket : sums_.all()) {
      uses.push_back(Reads(bucket.gradients));
      if (!builder_.describes_data_flow()) continue;
      for (const int tensor : bucket.tensors) {
        ranges.push_back({sums_.Slot(tensor).place, Elements(tensor), tied_.Counts(tensor)});
      }
    }
    clipping_.Write(Tensors(), step_.model().parameter_count(), DataType::kFp32, uses, ranges);
  }

  // AdamW on FP32 values, then a copy of each tensor. The effect of the update is stated of the
  // copies.
  void Update() {
    UpdatedTensors updated{.elements = slices_.shard(), .tensors = {}};
    for (const BlockLayout::Block& block : slices_.blocks()) {
      updated.tensors.push_back({.tensor = block.tensor, .elements = block.length});
    }
    std::vector<BufferUse> uses{Writes(states_)};
    for (const GradientBucket& bucket : sums_.all()) uses.push_back(Reads(bucket.gradients));
    WriteFrameworkUpdate(step_, fp32_, updated, uses, {});
    for (const BlockLayout::Block& block : slices_.blocks()) {
      const Range gradient = Own(sums_.Slot(block.tensor), block);
      const Range parameter = Own(Parameter(block.tensor), block);
      operations_.Reads(gradient);
      operations_.Writes(states_);
      operations_.Writes(parameter);
      builder_.With(OptimizerUpdate(parameter.place, gradient.place, states_.At(block.offset),
                                    slices_.shard(), parameter.elements));
      operations_.Traffic(BytesOf(block.length, DataType::kFp32), BytesOf(block.length, type_));
      operations_.Run(step_.compute(), "copy_to_parameters");
    }
  }

  // The collective all_gather_coalesced.
  void GatherParameters() {
    const StreamId compute = step_.compute();
    const std::int64_t shard = slices_.shard();
    const auto add = [&](const char* name, std::int64_t elements) {
      return Kept(name, elements, type_, Category::kCommunication, elements);
    };
    const Range own = add("own slices", shard);
    for (const BlockLayout::Block& block : slices_.blocks()) {
      const Range slice = Own(Parameter(block.tensor), block);
      operations_.Moves(own.Part(block.offset, block.length), slice);
    }
    Flatten(own, parameters_);
    const Range list = add("slices of all ranks", shard * Ranks());
    for (std::int64_t rank = 0; rank < Ranks(); ++rank) {
      Flatten(list.Part(rank * shard, shard), parameters_);
    }
    const Range gathered = add("gathered slices", shard * Ranks());
    builder_.WaitForStream(communication_, compute, updated_);
    operations_.AllGather(communication_, communicator_, gathered, own);
    builder_.WaitForStream(compute, communication_, gathered_);
    for (std::int64_t rank = 0; rank < Ranks(); ++rank) {
      operations_.Copy(compute, "copy_from_gathered", list.Part(rank * shard, shard),
                       gathered.Part(rank * shard, shard));
    }
    operations_.Release(gathered);
    for (std::int64_t rank = 0; rank < Ranks(); ++rank) {
      for (const BlockLayout::Block& block : slices_.blocks()) {
        const Piece piece = slices_.Own(block, rank);
        if (piece.elements == 0) continue;
        operations_.Copy(compute, "copy_to_parameters",
                         Parameter(block.tensor).Part(piece.first, piece.elements),
                         list.Part(rank * shard + block.offset, piece.elements));
      }
    }
    operations_.Release(list);
    operations_.Release(own);
  }

  // Copies slices of all tensors into one vector.
  void Flatten(const Range& target, const Range& parameters) {
    builder_.Use(Reads(parameters));
    operations_.Writes(target);
    operations_.Traffic(target.size(), target.size());
    operations_.Run(step_.compute(), "flatten");
  }

  const ProcessGroups groups_;
  const bool sharded_, ddp_;
  const DataType type_;  // of parameters and of the gradients that backward makes
  plan::Training fp32_;  // as the optimizer sees it
  StreamId communication_ = 0;
  Index communicator_ = kNone;
  LocalGradients gradients_;
  std::vector<int> order_;         // of the tensors in buckets
  GradientBuckets halves_, sums_;  // DDP's, in 16 bits; the FP32 gradients
  GradientClipping clipping_;
  TiedGradients tied_;
  BlockLayout slices_;
  Range parameters_, states_;
  std::vector<std::int64_t> offsets_;         // of parameters, by tensor
  std::vector<bool> reached_;                 // by tensor: this step has added to its FP32 gradient
  Index updated_ = kNone, gathered_ = kNone;  // events
};

}  // namespace

program::Program LowerNanotron(const scenario::Scenario& scenario, const LowerOptions& options) {
  return LowerWith<Nanotron>(scenario, options);
}

}  // namespace stepcast::lowering
