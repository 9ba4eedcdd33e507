#include "src/lowering/fsdp2.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "src/lowering/effects.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/memory_kernels.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/shard.h"
#include "src/lowering/sharded_state.h"
#include "src/lowering/training_step.h"
#include "src/lowering/units.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;

// How a tensor of a unit is cut, in elements. A rank holds `block` of them, whole rows, the last
// ranks less or nothing and padding; the parts of a unit's tensors lie behind one another.
struct ShardedTensor {
  int tensor = 0;
  std::int64_t elements = 0;
  std::int64_t block = 0;
  std::int64_t own_first = 0, own = 0;  // what this rank holds, without padding
  std::int64_t shard_offset = 0;        // in a rank's shard
  std::int64_t full_offset = 0;         // in the full parameters, with padding
  std::int64_t exact_offset = 0;        // among full tensors without padding
  std::int64_t kept_block = 0;          // reshard_after_forward: k: as above, over k ranks
  std::int64_t kept_first = 0, kept_own = 0, kept_offset = 0;
};

// One fully_shard'ed module: buffers, kernels and events of its parameters and gradients.
struct ShardedUnit {
  bool root = false;
  int last_layer = 0;
  std::vector<int> tensors;
  std::vector<ShardedTensor> parts;           // of tensors that are not empty
  std::vector<std::int64_t> tensor_elements;  // of this rank, by tensor, padded rows included
  std::int64_t shard_elements = 0;            // of all of them
  std::int64_t gathered_elements = 0;         // shard_elements x ranks
  bool empty = false;                         // no elements
  ShardedState state;
  // Parameters.
  Index gathered = kNone;  // result of the all-gather
  Index full = kNone;      // the parameters as the kernels read them
  Index kept = kNone;      // reshard_after_forward: k
  Index copy_in = kNone, copy_out = kNone, copy_in_kept = kNone, keep = kNone;  // kernels
  Index all_gather = kNone, all_gather_kept = kNone;                            // collectives
  Index gather_done = kNone, copy_out_done = kNone, kept_written = kNone;       // events
  bool gather_issued = false;  // a gather is under way or its result waits for copy-out
  bool unsharded = false;      // the full parameters exist
  bool has_kept = false;
  // Gradients.
  Index accumulated = kNone;    // full, in reduce_dtype, when synchronisation is put off
  Index reduce_input = kNone;   // full, in reduce_dtype
  Index reduce_output = kNone;  // this rank's shard, in reduce_dtype
  Index copy_to_reduce = kNone, copy_accumulated_to_reduce = kNone;  // kernels
  Index cast_gradient = kNone, add_gradient = kNone, copy_reduce_input = kNone;
  Index accumulate = kNone, accumulate_more = kNone;
  Index reduce_scatter = kNone, all_reduce = kNone;  // collectives
  Index reduced = kNone;                             // event: the reduce-scatter has read its input
  Index post_reduced = kNone;                        // event: the sharded gradient is final
  bool has_accumulated = false;
};

class Fsdp2 final : public Technique {
 public:
  explicit Fsdp2(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        plan_(step.plan()),
        groups_(ProcessGroupsOf(plan_, step.rank())),
        wrapping_(plan_.data_parallel.units == plan::WrappedUnits::kLayer
                      ? UnitPerModule(step.model())
                      : UnitPerBlock(step.model())),
        compute_type_(plan::ComputeType(plan_.training.precision)),
        memory_kernels_(builder_),
        gradients_(step, compute_type_),
        clipping_(step) {}

  void WritePrologue() override {
    copy_in_stream_ = builder_.AddStream("all-gather copy-in");
    gather_stream_ = builder_.AddStream("all-gather");
    reduce_stream_ = builder_.AddStream("reduce-scatter");
    communicator_ = builder_.AddCommunicator(groups_.shard_name(), groups_.shard);
    replica_communicator_ = builder_.AddCommunicator("replica", groups_.replica);
    post_reduce_stream_ = reduce_stream_;
    if (replica_communicator_ != kNone) post_reduce_stream_ = builder_.AddStream("all-reduce");
    if (const auto* ranks = std::get_if<std::int64_t>(&reshard())) {
      kept_communicator_ = builder_.AddCommunicator("reshard", groups_.Near(*ranks));
    }
    AllocateFrameworkWorkspaces(step_, {step_.compute()});
    clipping_.WritePrologue(communicator_);
    compute_issued_ = builder_.AddEvent("compute issued");
    copy_in_done_ = builder_.AddEvent("copy-in done");
    gradients_copied_ = builder_.AddEvent("gradients copied in");
    updated_ = builder_.AddEvent("updated");
    for (std::size_t i = 0; i < wrapping_.units.size(); ++i) AddUnit(static_cast<int>(i));
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (units_[i].root) {
        root_ = static_cast<int>(i);
      } else if (!units_[i].empty) {
        blocks_.push_back(static_cast<int>(i));
      }
    }
  }

  // The root's pre-forward: the shards may have been updated on the compute stream.
  void BeginForward() override {
    builder_.Record(step_.compute(), compute_issued_);
    builder_.Wait(copy_in_stream_, compute_issued_);
    builder_.Wait(gather_stream_, compute_issued_);
    in_backward_ = false;
    if (root_ >= 0) Unshard(root_);
  }

  void BeforeForward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    if (unit == root_) return;
    if (prefetch() == 0) HoldGatherUntilComputed();
    Unshard(unit);
    if (prefetch() >= 2) PrefetchAfter(unit, +1);
  }

  void AfterForward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    ShardedUnit& u = units_[unit];
    if (unit == root_ || ReshardsNever() || !u.unsharded) return;
    if (u.kept != kNone) {
      builder_.Allocate(step_.compute(), u.kept);
      for (const ShardedTensor& part : u.parts) {
        builder_.With(Move(At(u.kept, part.kept_offset, compute_type_),
                           At(u.full, part.full_offset + part.kept_first, compute_type_),
                           part.kept_own));
      }
      builder_.Run(step_.compute(), u.keep,
                   {builder_.ReadsAll(u.full), builder_.WritesAll(u.kept)});
      builder_.Record(step_.compute(), u.kept_written);
      u.has_kept = true;
    }
    Reshard(u);
  }

  void BeforeBackward(int layer) override {
    in_backward_ = true;
    const int unit = wrapping_.of_layer[layer];
    if (unit == root_) {
      if (units_[root_].last_layer != layer) return;
      FinishForwardGathers();
      if (prefetch() > 0 && !blocks_.empty()) IssueGather(units_[blocks_.back()]);
      return;
    }
    if (root_ < 0 && layer == static_cast<int>(step_.model().layers.size()) - 1) {
      FinishForwardGathers();
    }
    if (prefetch() == 0) HoldGatherUntilComputed();
    Unshard(unit);
    PrefetchAfter(unit, -1);
  }

  void AfterBackward(int layer) override {
    const int unit = wrapping_.of_layer[layer];
    if (unit != root_) PostBackward(unit);
  }

  // The root's final callback: its own reduction, then the compute stream waits for all.
  void EndBackward() override {
    if (root_ >= 0) PostBackward(root_);
    if (last_reduced_ < 0) return;
    builder_.Wait(step_.compute(), units_[last_reduced_].post_reduced);
    FreeReduceInput();
    if (!held_outputs_.empty()) {
      builder_.Wait(reduce_stream_, units_[last_reduced_].post_reduced);
      for (const Index output : held_outputs_) builder_.Release(output);
      held_outputs_.clear();
    }
    last_reduced_ = -1;
  }

  void AppendParameterReads(int layer, std::vector<BufferUse>& uses) override {
    uses.push_back(builder_.ReadsAll(units_[wrapping_.of_layer[layer]].full));
  }

  void WriteGradient(int layer, int tensor) override {
    const ShardedUnit& u = units_[wrapping_.of_layer[layer]];
    program::Elements read = At(u.full, 0, compute_type_);
    for (const ShardedTensor& part : u.parts) {
      if (part.tensor == tensor) read = Further(read, part.full_offset);
    }
    gradients_.Write(tensor, read);
  }

  void GradientReady(int tensor) override { gradients_.Complete(tensor); }

  void WriteUpdate() override {
    std::vector<ShardedState*> states;
    for (ShardedUnit& u : units_) states.push_back(&u.state);
    std::vector<StreamId> streams = {reduce_stream_};
    if (post_reduce_stream_ != reduce_stream_) streams.push_back(post_reduce_stream_);
    WriteShardedUpdate(step_, states, streams, updated_, clipping_,
                       static_cast<std::int64_t>(step_.model().tensors.size()));
  }

 private:
  std::int64_t ShardRanks() const { return plan_.data_parallel.shard_group_size; }
  std::int64_t prefetch() const { return plan_.data_parallel.prefetch; }
  const plan::ReshardAfterForward& reshard() const {
    return plan_.data_parallel.reshard_after_forward;
  }
  bool ReshardsNever() const {
    const bool* value = std::get_if<bool>(&reshard());
    return value && !*value;
  }
  // Reduced gradients come in the type that they are kept in: nothing to cast.
  bool KeepsReducedType() const {
    return plan_.training.reduce_dtype == plan_.training.parameter_dtype;
  }
  // Gradients whose reduction is put off are kept apart, in the type they will be reduced in.
  bool AccumulatesInReduceType() const {
    return plan_.data_parallel.accumulate_unsharded && plan_.training.gradient_accumulation > 1 &&
           plan_.training.reduce_dtype != compute_type_;
  }
  bool Synchronises() const {
    return !plan_.data_parallel.accumulate_unsharded || step_.last_micro_batch();
  }

  program::Elements ShardPlace(const ShardedUnit& u, const ShardedTensor& part) const {
    return Further(ParameterShard(step_, u.state), part.shard_offset);
  }
  program::Elements GradientShardPlace(const ShardedUnit& u, const ShardedTensor& part) const {
    return Further(GradientShard(step_, u.state), part.shard_offset);
  }
  // The elements that this rank puts into the gather buffer: how many before, and how many of all.
  std::int64_t GatherOffset(const ShardedUnit& u, bool from_kept) const {
    return from_kept ? u.gathered_elements / KeptRanks() * (groups_.rank % KeptRanks())
                     : u.shard_elements * groups_.shard_index();
  }
  std::int64_t KeptRanks() const { return std::get<std::int64_t>(reshard()); }

  // Where a rank's part of a tensor lies in a whole of blocks, each of `block` elements, of which
  // this rank has number `index`.
  static std::int64_t OwnElements(std::int64_t elements, std::int64_t block, std::int64_t index) {
    return std::clamp<std::int64_t>(elements - index * block, 0, block);
  }

  void AddParts(ShardedUnit& u) {
    const auto ranks = static_cast<std::int64_t>(groups_.shard.size());
    std::int64_t shard_offset = 0, exact_offset = 0, kept_offset = 0;
    for (const int t : u.tensors) {
      const model::Tensor& tensor = step_.model().tensors[t];
      if (tensor.elements == 0) continue;
      const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
      ShardedTensor part{.tensor = t, .elements = tensor.elements};
      part.block = Shard(rows, ranks).length() * (tensor.elements / rows);
      part.own_first = groups_.shard_index() * part.block;
      part.own = OwnElements(part.elements, part.block, groups_.shard_index());
      part.shard_offset = shard_offset;
      part.full_offset = shard_offset * ranks;
      part.exact_offset = exact_offset;
      if (kept_communicator_ != kNone) {
        const std::int64_t index = groups_.rank % KeptRanks();
        part.kept_block = part.block * ranks / KeptRanks();
        part.kept_first = index * part.kept_block;
        part.kept_own = OwnElements(part.elements, part.kept_block, index);
        part.kept_offset = kept_offset;
        kept_offset += part.kept_block;
      }
      shard_offset += part.block;
      exact_offset += part.elements;
      u.parts.push_back(part);
    }
  }

  Index AddMemoryKernel(const char* name, Bytes read, Bytes written) {
    return memory_kernels_.Add(name, compute_type_, read, written);
  }

  // What a rank holds of each tensor of a unit, padded rows included: DTensors, which the optimizer
  // sees by these local parts. Blocks are alike: as a rule it was worked out for the unit before.
  std::vector<std::int64_t> ShardElements(int index) {
    const std::vector<model::Tensor>& tensors = step_.model().tensors;
    const std::vector<int>& own = wrapping_.units[index].tensors;
    if (index > 0) {
      const std::vector<int>& before = wrapping_.units[index - 1].tensors;
      const bool alike =
          std::equal(own.begin(), own.end(), before.begin(), before.end(), [&](int a, int b) {
            return tensors[a].elements == tensors[b].elements &&
                   tensors[a].shape == tensors[b].shape;
          });
      if (alike) return units_[index - 1].tensor_elements;
    }
    std::vector<std::int64_t> elements;
    for (const int t : own) {
      const model::Tensor& tensor = tensors[t];
      const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
      const std::int64_t row = rows == 0 ? 0 : tensor.elements / rows;
      elements.push_back(Shard(rows, ShardRanks()).length() * row);
    }
    return elements;
  }

  void AddUnit(int index) {
    const plan::Training& training = plan_.training;
    const model::Model& model = step_.model();
    const Unit& unit = wrapping_.units[index];
    const Index name = builder_.AddText(unit.name);
    const std::int64_t ranks = ShardRanks();
    ShardedUnit& u = units_.emplace_back();
    u.root = unit.root;
    u.last_layer = unit.layers.back();
    u.tensors = unit.tensors;
    std::int64_t exact = 0;  // sum of the unpadded tensors
    for (const int t : unit.tensors) exact += model.tensors[t].elements;
    u.tensor_elements = ShardElements(index);
    for (const std::int64_t elements : u.tensor_elements) u.shard_elements += elements;
    u.gathered_elements = u.shard_elements * ranks;
    u.empty = u.gathered_elements == 0;
    if (builder_.describes_data_flow()) AddParts(u);

    const DataType reduced_in = training.reduce_dtype;
    const auto whole_buffer = [&](const char* what, std::int64_t count, DataType type,
                                  Category category) {
      return builder_.AddBuffer(builder_.Named(name, what), BytesOf(count, type), category,
                                BytesOf(count - exact, type));
    };
    std::vector<ShardPart> parts;
    for (const ShardedTensor& part : u.parts) {
      parts.push_back({.tensor = part.tensor,
                       .first = part.own_first,
                       .elements = part.own,
                       .offset = part.shard_offset});
    }
    u.state = AddShardedState(step_, name, u.shard_elements, exact, ranks, std::move(parts));
    for (std::size_t i = 0; i < u.tensors.size(); ++i) {
      const model::Tensor& tensor = model.tensors[u.tensors[i]];
      if (tensor.elements == 0) continue;
      u.state.updated.push_back({.tensor = u.tensors[i], .elements = u.tensor_elements[i]});
    }
    u.gathered = whole_buffer("/gather buffer", u.gathered_elements, compute_type_,
                              Category::kCommunication);
    u.full =
        whole_buffer("/parameters", u.gathered_elements, compute_type_, Category::kCommunication);
    const Bytes gathered_size = BytesOf(u.gathered_elements, compute_type_);
    const Bytes slice_size = BytesOf(u.shard_elements, compute_type_);
    const Bytes sharded_size = BytesOf(u.shard_elements, training.parameter_dtype);
    const Bytes input_size = BytesOf(u.gathered_elements, reduced_in);
    const Bytes output_size = BytesOf(u.shard_elements, reduced_in);
    u.copy_in = AddMemoryKernel("all_gather_copy_in", sharded_size, slice_size);
    u.copy_out = AddMemoryKernel("split_with_sizes_copy", gathered_size, gathered_size);
    if (communicator_ != kNone) {
      u.all_gather = builder_.AddCollective({.kind = CollectiveKind::kAllGather,
                                             .communicator = communicator_,
                                             .bytes = gathered_size,
                                             .data_type = compute_type_});
      u.reduce_scatter = builder_.AddCollective({.kind = CollectiveKind::kReduceScatter,
                                                 .communicator = communicator_,
                                                 .bytes = input_size,
                                                 .data_type = reduced_in,
                                                 .average = true});
    }
    if (replica_communicator_ != kNone) {
      u.all_reduce = builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                             .communicator = replica_communicator_,
                                             .bytes = output_size,
                                             .data_type = reduced_in,
                                             .average = true});
    }
    if (kept_communicator_ != kNone && !u.root) {
      const auto kept_ranks = std::get<std::int64_t>(reshard());
      const Shard part(u.gathered_elements, kept_ranks);
      const Bytes part_size = BytesOf(part.length(), compute_type_);
      u.kept = builder_.AddBuffer(builder_.Named(name, "/kept shard"), part_size,
                                  Category::kCommunication);
      u.keep = AddMemoryKernel("keep_shard", part_size, part_size);
      u.copy_in_kept = AddMemoryKernel("all_gather_copy_in", part_size, part_size);
      u.all_gather_kept = builder_.AddCollective({.kind = CollectiveKind::kAllGather,
                                                  .communicator = kept_communicator_,
                                                  .bytes = gathered_size,
                                                  .data_type = compute_type_});
    }
    u.gather_done = builder_.AddEvent(builder_.Named(name, " gathered"));
    u.copy_out_done = builder_.AddEvent(builder_.Named(name, " copied out"));
    u.kept_written = builder_.AddEvent(builder_.Named(name, " kept"));

    const Bytes gradient_size = BytesOf(exact, compute_type_);
    u.reduce_input =
        whole_buffer("/reduce-scatter input", u.gathered_elements, reduced_in, Category::kGradient);
    u.reduce_output = builder_.AddBuffer(builder_.Named(name, "/reduce-scatter output"),
                                         output_size, Category::kGradient,
                                         output_size - Bytes(exact * SizeOf(reduced_in) / ranks));
    u.copy_to_reduce = AddMemoryKernel("chunk_cat", gradient_size, input_size);
    if (communicator_ == kNone)
      u.copy_reduce_input = AddMemoryKernel("copy", input_size, output_size);
    u.cast_gradient = AddMemoryKernel("cast_gradient", output_size, sharded_size);
    u.add_gradient =
        AddMemoryKernel("accumulate_gradient", output_size + sharded_size, sharded_size);
    if (AccumulatesInReduceType()) {
      u.accumulated =
          whole_buffer("/accumulated gradients", exact, reduced_in, Category::kGradient);
      const Bytes accumulated_size = BytesOf(exact, reduced_in);
      u.accumulate = AddMemoryKernel("to_accumulated_gradient", gradient_size, accumulated_size);
      u.accumulate_more = AddMemoryKernel("accumulate_gradient", gradient_size + accumulated_size,
                                          accumulated_size);
      u.copy_accumulated_to_reduce = AddMemoryKernel("chunk_cat", accumulated_size, input_size);
    }
    u.reduced = builder_.AddEvent(builder_.Named(name, " reduce-scattered"));
    u.post_reduced = builder_.AddEvent(builder_.Named(name, " gradient ready"));
  }

  // prefetch 0: nothing is gathered beside compute.
  void HoldGatherUntilComputed() {
    builder_.Record(step_.compute(), compute_issued_);
    builder_.Wait(copy_in_stream_, compute_issued_);
    builder_.Wait(gather_stream_, compute_issued_);
  }

  // Asks for the next blocks in the direction of travel.
  void PrefetchAfter(int unit, int direction) {
    const auto found = std::find(blocks_.begin(), blocks_.end(), unit);
    if (found == blocks_.end()) return;
    const std::int64_t at = found - blocks_.begin();
    for (std::int64_t d = 1; d <= prefetch(); ++d) {
      const std::int64_t next = at + direction * d;
      if (next < 0 || next >= static_cast<std::int64_t>(blocks_.size())) return;
      IssueGather(units_[blocks_[next]]);
    }
  }

  // Copy-in and all-gather.
  void IssueGather(ShardedUnit& u) {
    if (u.unsharded || u.gather_issued || u.empty) return;
    u.gather_issued = true;
    const bool from_kept = u.has_kept;
    const Index source = from_kept ? u.kept : u.state.parameters;
    if (from_kept) {
      builder_.Wait(copy_in_stream_, u.kept_written);
      builder_.Wait(gather_stream_, u.kept_written);
    }
    builder_.Allocate(copy_in_stream_, u.gathered);
    const program::Elements slice = At(u.gathered, GatherOffset(u, from_kept), compute_type_);
    for (const ShardedTensor& part : u.parts) {
      if (from_kept) {
        builder_.With(Move(Further(slice, part.kept_offset),
                           At(u.kept, part.kept_offset, compute_type_), part.kept_own));
      } else {
        builder_.With(Move(Further(slice, part.shard_offset), ShardPlace(u, part), part.own));
      }
    }
    builder_.Run(copy_in_stream_, from_kept ? u.copy_in_kept : u.copy_in,
                 {builder_.ReadsAll(source), builder_.WritesAll(u.gathered)});
    builder_.Record(copy_in_stream_, copy_in_done_);
    builder_.Wait(gather_stream_, copy_in_done_);
    const Index collective = from_kept ? u.all_gather_kept : u.all_gather;
    if (collective != kNone) {
      builder_.With(Collected(At(u.gathered, 0, compute_type_), slice, u.gathered_elements));
      builder_.Communicate(gather_stream_, collective, {builder_.WritesAll(u.gathered)});
    }
    builder_.Record(gather_stream_, u.gather_done);
  }

  // Makes the unit's full parameters exist on the compute stream.
  void Unshard(int index) {
    ShardedUnit& u = units_[index];
    if (u.unsharded || u.empty) return;
    IssueGather(u);
    // Forward: the result of the unit before is freed only now, so that its copy-out overlapped
    // the gather just issued.
    if (!in_backward_) FinishForwardGathers();
    builder_.Wait(step_.compute(), u.gather_done);
    builder_.Allocate(step_.compute(), u.full);
    for (const ShardedTensor& part : u.parts) {
      // What was gathered from kept shards stands in parts of that size.
      const std::int64_t block = u.has_kept ? part.kept_block : part.block;
      const std::int64_t stride = u.has_kept ? u.gathered_elements / KeptRanks() : u.shard_elements;
      const std::int64_t first = u.has_kept ? part.kept_offset : part.shard_offset;
      builder_.With(InBlocks(Move(At(u.full, part.full_offset, compute_type_),
                                  At(u.gathered, first, compute_type_), part.elements),
                             block, block, stride));
    }
    builder_.Run(step_.compute(), u.copy_out,
                 {builder_.ReadsAll(u.gathered), builder_.WritesAll(u.full)});
    builder_.Record(step_.compute(), u.copy_out_done);
    // The copy-out comes after the copy-in that read it.
    if (u.has_kept) {
      builder_.Release(u.kept);
      u.has_kept = false;
    }
    u.unsharded = true;
    u.gather_issued = false;
    if (in_backward_) {
      FreeGathered(u);
    } else {
      deferred_ = index;
    }
  }

  void FinishForwardGathers() {
    if (deferred_ < 0) return;
    FreeGathered(units_[deferred_]);
    deferred_ = -1;
  }

  // The all-gather streams may reuse the buffer once the copy-out has read it.
  void FreeGathered(ShardedUnit& u) {
    builder_.Wait(copy_in_stream_, u.copy_out_done);
    builder_.Wait(gather_stream_, u.copy_out_done);
    builder_.Release(u.gathered);
  }

  void Reshard(ShardedUnit& u) {
    if (!u.unsharded) return;
    builder_.Release(u.full);
    u.unsharded = false;
  }

  void PostBackward(int index) {
    ShardedUnit& u = units_[index];
    if (u.empty) return;
    const bool put_off = !Synchronises();
    if (u.accumulated != kNone) {
      if (!u.has_accumulated) {
        Reshard(u);  // before the upcast, to save memory
        builder_.Allocate(step_.compute(), u.accumulated);
      }
      for (const ShardedTensor& part : u.parts) {
        const program::Effect move =
            Move(At(u.accumulated, part.exact_offset, plan_.training.reduce_dtype),
                 gradients_.place(part.tensor), part.elements);
        builder_.With(u.has_accumulated ? Added(move) : move);
      }
      builder_.Run(step_.compute(), u.has_accumulated ? u.accumulate_more : u.accumulate,
                   GradientUses(u, builder_.WritesAll(u.accumulated)));
      u.has_accumulated = true;
      ReleaseGradients(u);
    }
    Reshard(u);
    if (put_off) return;
    Reduce(index);
  }

  void ReleaseGradients(const ShardedUnit& u) {
    for (const int tensor : u.tensors) {
      if (gradients_.exists(tensor)) gradients_.Release(tensor);
    }
  }

  // Reads the unit's full gradients, writes `target`.
  std::vector<BufferUse> GradientUses(const ShardedUnit& u, BufferUse target) const {
    std::vector<BufferUse> uses{target};
    for (const int tensor : u.tensors) {
      if (gradients_.exists(tensor)) uses.push_back(builder_.ReadsAll(gradients_.buffer(tensor)));
    }
    return uses;
  }

  void Reduce(int index) {
    ShardedUnit& u = units_[index];
    // One reduce-scatter input in flight.
    FreeReduceInput();
    builder_.Allocate(step_.compute(), u.reduce_input);
    const DataType reduced_in = plan_.training.reduce_dtype;
    for (const ShardedTensor& part : u.parts) {
      const program::Elements gradient = u.has_accumulated
                                             ? At(u.accumulated, part.exact_offset, reduced_in)
                                             : gradients_.place(part.tensor);
      builder_.With(
          InBlocks(Move(At(u.reduce_input, part.shard_offset, reduced_in), gradient, part.elements),
                   part.block, u.shard_elements, part.block));
    }
    if (u.has_accumulated) {
      builder_.Run(step_.compute(), u.copy_accumulated_to_reduce,
                   {builder_.ReadsAll(u.accumulated), builder_.WritesAll(u.reduce_input)});
      builder_.Release(u.accumulated);
      u.has_accumulated = false;
    } else {
      builder_.Run(step_.compute(), u.copy_to_reduce,
                   GradientUses(u, builder_.WritesAll(u.reduce_input)));
      ReleaseGradients(u);
    }
    builder_.WaitForStream(reduce_stream_, step_.compute(), gradients_copied_);
    const bool first = !u.state.has_gradient;
    // The first reduction's result is the sharded gradient, unless it must be cast.
    const bool direct = first && KeepsReducedType();
    const Index output = direct ? u.state.gradient : u.reduce_output;
    builder_.Allocate(reduce_stream_, output);
    const program::Elements whole = At(u.reduce_input, 0, reduced_in);
    const program::Elements shard = At(output, 0, reduced_in);
    if (u.reduce_scatter != kNone) {
      builder_.With(Collected(shard, whole, u.gathered_elements));
      builder_.Communicate(reduce_stream_, u.reduce_scatter,
                           {builder_.ReadsAll(u.reduce_input), builder_.WritesAll(output)});
    } else {
      // One rank: the input is the output.
      builder_.With(Move(shard, whole, u.shard_elements));
      builder_.Run(reduce_stream_, u.copy_reduce_input,
                   {builder_.ReadsAll(u.reduce_input), builder_.WritesAll(output)});
    }
    builder_.Record(reduce_stream_, u.reduced);
    if (u.all_reduce != kNone) {
      builder_.Wait(post_reduce_stream_, u.reduced);
      builder_.With(Collected(shard, shard, u.shard_elements));
      builder_.Communicate(post_reduce_stream_, u.all_reduce, {builder_.WritesAll(output)});
    }
    if (!direct) {
      if (first) builder_.Allocate(post_reduce_stream_, u.state.gradient);
      for (const ShardedTensor& part : u.parts) {
        const program::Effect move =
            Move(GradientShardPlace(u, part), Further(shard, part.shard_offset), part.own);
        builder_.With(first ? move : Added(move));
      }
      builder_.Run(post_reduce_stream_, first ? u.cast_gradient : u.add_gradient,
                   {builder_.ReadsAll(output), builder_.WritesAll(u.state.gradient)});
    }
    u.state.has_gradient = true;
    builder_.Record(post_reduce_stream_, u.post_reduced);
    if (!direct && post_reduce_stream_ == reduce_stream_) {
      builder_.Release(output);
    } else if (!direct) {
      held_outputs_.push_back(output);  // until the all-reduce stream is done with it
    }
    in_flight_ = index;
    last_reduced_ = index;
  }

  // The compute stream waits until the last reduce-scatter has read its input, then frees it.
  void FreeReduceInput() {
    if (in_flight_ < 0) return;
    builder_.Wait(step_.compute(), units_[in_flight_].reduced);
    builder_.Release(units_[in_flight_].reduce_input);
    in_flight_ = -1;
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  const ProcessGroups groups_;
  const Units wrapping_;
  const DataType compute_type_;  // what is gathered and what kernels read

  StreamId copy_in_stream_ = 0, gather_stream_ = 0, reduce_stream_ = 0, post_reduce_stream_ = 0;
  Index communicator_ = kNone, replica_communicator_ = kNone, kept_communicator_ = kNone;
  Index compute_issued_ = kNone, copy_in_done_ = kNone, gradients_copied_ = kNone;
  Index updated_ = kNone;
  MemoryKernels memory_kernels_;
  std::vector<ShardedUnit> units_;  // as wrapping_.units
  LocalGradients gradients_;
  GradientClipping clipping_;
  std::vector<Index> held_outputs_;  // reduced shards that the all-reduce stream still uses
  std::vector<int> blocks_;          // units with parameters but the root, in forward order
  int root_ = -1;
  int deferred_ = -1;      // forward: the unit whose gather buffer waits to be freed
  int in_flight_ = -1;     // the unit whose reduce-scatter input is held
  int last_reduced_ = -1;  // in this backward
  bool in_backward_ = false;
};

}  // namespace

program::Program LowerFsdp2(const scenario::Scenario& scenario, const LowerOptions& options) {
  TrainingStep step(scenario, options);
  Fsdp2 technique(step);
  return step.Write(technique);
}

}  // namespace stepcast::lowering
