#include "src/lowering/deepspeed_stage3.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/lowering/deepspeed_update.h"
#include "src/lowering/effects.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/memory_kernel.h"
#include "src/lowering/model_state.h"
#include "src/lowering/module_runs.h"
#include "src/lowering/operations.h"
#include "src/lowering/parameter_coordinator.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/shard.h"
#include "src/lowering/training_step.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::kNone;
using Parameters = ParameterCoordinator::Parameters;

// A parameter tensor: in elements, where its part lies among this rank's parts.
struct PartitionedTensor {
  Shard shard;
  std::int64_t offset = 0;  // of the part in the rank's flat tensors
  std::int64_t own = 0;     // elements of the part that are not padding
  bool persistent = false;
  Index full = kNone;    // buffer
  Index gather = kNone;  // collective, of this parameter alone from all ranks
  // zero_hpz_partition_size: this rank's part of the copy that few ranks share.
  Index secondary = kNone, copy_secondary = kNone;  // buffer, kernel
  bool has_secondary = false;
  Index square = kNone, widen = kNone;  // kernels: norm and FP32 values for the host
  Index copy_out = kNone, copy_to_bucket = kNone, keep = kNone, add = kNone;  // kernels
};

// Parameters gathered in one collective: from all ranks, or from those that share a secondary copy.
struct Gather {
  Parameters parameters;
  bool secondary = false;
  std::int64_t ranks = 0, index = 0;  // of the group, and this rank's place in it
  std::int64_t part = 0;              // elements of each rank
  Index staged = kNone;               // buffer: this rank's parts as they come from the host
  Index flat = kNone;                 // buffer: what was gathered, of several parameters
  Index packed = kNone, flat_packed = kNone, scales = kNone;    // buffers: as 8-bit integers
  Index copy_in = kNone, quantise = kNone, dequantise = kNone;  // kernels
  Index collective = kNone, scale_collective = kNone;
  Index gathered = kNone;  // event
  int waiting = 0;         // parameters that nobody has waited for yet
  bool complete = false;
};

// A tensor's gradient exchanged as 4-bit integers, inside nodes and then across them.
struct QuantisedExchange {
  Index packed = kNone, exchanged = kNone, summed = kNone, result = kNone;   // buffers
  Index quantise = kNone, sum = kNone, dequantise = kNone, average = kNone;  // kernels
  Index inside = kNone, inside_scales = kNone, across = kNone, across_scales = kNone;
};

// The host waits for the event that was recorded three records ago: at most so many are open.
class Backpressure {
 public:
  void AddEvents(ProgramBuilder& builder, const std::string& name) {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      events_[i] = builder.AddEvent(name + " " + std::to_string(i));
    }
  }
  void Wait(ProgramBuilder& builder) const {
    if (count_ > kOpen) builder.HostWait(events_[(count_ - kOpen - 1) % events_.size()]);
  }
  void Record(ProgramBuilder& builder, StreamId stream) {
    builder.Record(stream, events_[count_++ % events_.size()]);
  }

 private:
  static constexpr std::size_t kOpen = 2;
  std::array<Index, kOpen + 2> events_{};
  std::size_t count_ = 0;
};

// Elements in the gradient bucket, or beside it where one is too large.
struct BucketEntry {
  int tensor = 0;
  program::Elements place;
  bool alone = false;  // still where backward made it
};

// What a certain content of the bucket is reduced with.
struct BucketReduction {
  Index interleaved = kNone;                 // buffer: the parts of each rank behind one another
  Index interleave = kNone, divide = kNone;  // kernels
  Index collective = kNone;
};

class Stage3 final : public Technique {
 public:
  explicit Stage3(TrainingStep& step)
      : step_(step),
        builder_(step.builder()),
        plan_(step.plan()),
        settings_(plan_.data_parallel.deepspeed),
        overlap_(plan_.data_parallel.overlap),
        groups_(ProcessGroupsOf(plan_, step.rank())),
        ranks_(static_cast<std::int64_t>(groups_.data.size())),
        type_(plan_.training.parameter_dtype),
        reduced_in_(plan_.training.reduce_dtype),
        kept_in_(plan_.training.gradient_dtype),
        offload_(step),
        operations_(builder_),
        gradients_(step, operations_, type_) {}

  void WritePrologue() override {
    const StreamId compute = step_.compute();
    gather_stream_ = overlap_ ? builder_.AddStream("all-gather") : compute;
    reduce_stream_ = overlap_ ? builder_.AddStream("reduce and partition") : compute;
    nccl_stream_ = builder_.AddStream("nccl data");
    communicator_ = builder_.AddCommunicator("data", groups_.data);
    if (HasSecondary()) {
      secondary_communicator_ =
          builder_.AddCommunicator("hpz", groups_.Near(settings_.hpz_partition_size));
      kept_ = builder_.AddEvent("secondary part kept");
    }
    if (ExchangesQuantised()) {
      const std::int64_t ranks = RanksOfNode();
      node_communicator_ = builder_.AddCommunicator("node", groups_.Near(ranks));
      rail_communicator_ = builder_.AddCommunicator("rail", groups_.Far(ranks));
    }
    AllocateFrameworkWorkspaces(step_, {compute});
    launched_ = builder_.AddEvent("gather asked for");
    fetched_ = builder_.AddEvent("fetched");
    gradient_made_ = builder_.AddEvent("gradient made");
    reduced_ = builder_.AddEvent("gradients reduced");
    updated_ = builder_.AddEvent("updated");
    gathered_ = builder_.AddEvent("small parameters gathered");
    fetches_.AddEvents(builder_, "fetched");
    reductions_.AddEvents(builder_, "reduced");
    offload_.WritePrologue();
    AddTensors();
    AddModules();
    update_.emplace(step_, communicator_);
    AddSubGroups();
  }

  void BeginStep() override {
    if (gather_stream_ != step_.compute()) builder_.Wait(gather_stream_, updated_);
  }

  void BeginForward() override { coordinator_->BeginMicroBatch(); }
  void BeforeForward(int) override {}
  void AfterForward(int) override {}
  void BeforeBackward(int) override {}
  void AfterBackward(int) override {}

  void AppendParameterReads(int, std::vector<BufferUse>&) override {}

  void BeforeOperator(Pass pass, int layer, std::size_t op) override {
    const ModuleRun* run = RunAt(pass, layer, op);
    if (run == nullptr) return;
    if (run->first == op) Fetch();
    for (const int position : run->parameters) {
      const int tensor = step_.model().layers[layer].tensors[position];
      const program::Elements place = ParameterPlace(tensor);
      builder_.Use(Reads(place.buffer, place.offset, BytesOf(Elements(tensor), type_)));
    }
  }

  void AfterOperator(Pass pass, int layer, std::size_t op) override {
    const ModuleRun* run = RunAt(pass, layer, op);
    if (run == nullptr || run->last != op) return;
    // Without a gradient for the module's input its hook behind backward does not run.
    if (pass == Pass::kBackward && layer == 0) return;
    for (const int tensor : coordinator_->Release()) Free(tensor);
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    gradients_.Write(tensor, ParameterPlace(tensor));
  }

  void GradientReady(int tensor) override {
    gradients_.Complete(tensor);
    const std::int64_t elements = Elements(tensor);
    if (bucket_elements_ > 0 && bucket_elements_ + elements > settings_.reduce_bucket_size) {
      Reduce();
    }
    if (overlap_) builder_.WaitForStream(reduce_stream_, step_.compute(), gradient_made_);
    BucketEntry entry{.tensor = tensor, .place = gradients_.place(tensor), .alone = true};
    if (bucket_elements_ + elements <= settings_.reduce_bucket_size) {
      entry = {.tensor = tensor, .place = At(bucket_, bucket_elements_, reduced_in_)};
      builder_.With(Scaled(1.0 / static_cast<double>(ranks_),
                           Move(entry.place, gradients_.place(tensor), elements)));
      builder_.Run(reduce_stream_, tensors_[tensor].copy_to_bucket,
                   {builder_.ReadsAll(gradients_.buffer(tensor)),
                    Writes(bucket_, entry.place.offset, BytesOf(elements, reduced_in_))});
      FreeGradient(tensor);
    }
    entries_.push_back(entry);
    bucket_elements_ += elements;
  }

  void EndBackward() override {
    if (!entries_.empty()) Reduce();
    builder_.Record(reduce_stream_, reduced_);
    builder_.HostWait(reduced_);
    for (const int tensor : coordinator_->ReleaseRest()) Free(tensor);
  }

  void WriteUpdate() override {
    const StreamId compute = step_.compute();
    for (const int tensor : persistent_) Free(tensor);
    if (offload_.optimizer()) {
      UpdateOnHost();
      FinishUpdate();
      return;
    }
    update_->CheckOverflow(reduce_stream_, 1, part_elements_, {builder_.ReadsAll(flat_gradients_)});
    bool first = true;
    for (const SubGroup& group : sub_groups_) {
      std::vector<program::Effect> squares;
      for (const int t : group.tensors) {
        const PartitionedTensor& tensor = tensors_[t];
        if (!builder_.describes_data_flow() || tensor.own == 0) continue;
        squares.push_back(
            update_->SquaresOf(At(flat_gradients_, tensor.offset, kept_in_), tensor.own, 1));
      }
      update_->TakeNorm(static_cast<std::int64_t>(group.tensors.size()), group.update.elements,
                        {GradientsOf(group)}, squares, std::exchange(first, false));
    }
    for (const SubGroup& group : sub_groups_) {
      std::vector<program::Effect> moves, updates;
      for (const int t : group.tensors) {
        const PartitionedTensor& tensor = tensors_[t];
        const std::int64_t offset = tensor.offset - group.first;
        AppendJoined(moves, Move(At(group.update.flat, offset, kept_in_),
                                 At(flat_gradients_, tensor.offset, kept_in_), tensor.own));
        AppendJoined(updates, update_->UpdateOf(group.update, At(partition_, tensor.offset, type_),
                                                offset, tensor.own));
      }
      update_->Flatten(group.update, {GradientsOf(group)}, moves);
      const Bytes size = BytesOf(group.update.elements, type_);
      if (offload_.parameters()) {
        // Written beside, and sent to the host.
        const Index updated =
            builder_.AddBuffer("updated parameters", size, Category::kCommunication);
        builder_.Allocate(compute, updated);
        update_->Apply(group.update, {builder_.WritesAll(updated)}, updates);
        offload_.ToHost(compute, size, {builder_.ReadsAll(updated)});
        offload_.ParametersOnward(size);
        builder_.Release(updated);
        continue;
      }
      update_->Apply(group.update, {Writes(partition_, BytesOf(group.first, type_), size)},
                     updates);
    }
    FinishUpdate();
  }

 private:
  struct SubGroup {
    std::vector<int> tensors;
    std::int64_t first = 0;  // element of this rank's parts
    UpdateGroup update;
  };

  // Secondary copies are of old values now; small parameters are gathered again.
  void FinishUpdate() {
    for (PartitionedTensor& tensor : tensors_) {
      if (!std::exchange(tensor.has_secondary, false)) continue;
      builder_.Release(tensor.secondary);
    }
    GatherPersistent();
    builder_.Record(step_.compute(), updated_);
  }

  // All ranks together sharing a copy is what there is without.
  bool HasSecondary() const {
    return settings_.hpz_partition_size > 1 && settings_.hpz_partition_size < ranks_;
  }
  std::int64_t RanksOfNode() const {
    return std::min<std::int64_t>(step_.scenario().cluster->gpus_per_node(), ranks_);
  }
  // DeepSpeed exchanges only between several full nodes.
  bool ExchangesQuantised() const {
    return settings_.quantized_gradients && ranks_ > RanksOfNode() && ranks_ % RanksOfNode() == 0;
  }

  std::int64_t Elements(int tensor) const { return step_.model().tensors[tensor].elements; }

  // Where kernels read a parameter. One rank has nothing to gather: its part is the whole.
  program::Elements ParameterPlace(int tensor) const {
    return ranks_ == 1 ? At(partition_, tensors_[tensor].offset, type_)
                       : At(tensors_[tensor].full, 0, type_);
  }

  BufferUse PartOf(const PartitionedTensor& tensor) const {
    return Reads(partition_, BytesOf(tensor.offset, type_), BytesOf(tensor.shard.length(), type_));
  }
  BufferUse GradientsOf(const SubGroup& group) const {
    return Reads(flat_gradients_, BytesOf(group.first, kept_in_),
                 BytesOf(group.update.elements, kept_in_));
  }

  Index AddMemoryKernel(const char* name, Bytes read, Bytes written) {
    return builder_.AddKernel(MemoryKernel(name, type_, read, written));
  }

  void AddTensors() {
    std::int64_t padding = 0;
    for (const model::Tensor& model_tensor : step_.model().tensors) {
      const auto index = static_cast<int>(tensors_.size());
      PartitionedTensor& tensor = tensors_.emplace_back();
      tensor.shard = Shard(model_tensor.elements, ranks_);
      const std::int64_t part = tensor.shard.length();
      tensor.offset = part_elements_;
      tensor.own = std::clamp<std::int64_t>(model_tensor.elements - groups_.rank * part, 0, part);
      tensor.persistent = model_tensor.elements <= settings_.param_persistence_threshold;
      part_elements_ += part;
      padding += tensor.shard.PaddingOfShard(1);
      if (tensor.persistent && ranks_ > 1 && model_tensor.elements > 0) {
        persistent_.push_back(index);
      }
    }
    partition_ = builder_.AddBuffer("parameter partition", BytesOf(part_elements_, type_),
                                    Category::kParameter, BytesOf(padding, type_));
    flat_gradients_ = builder_.AddBuffer("gradient partition", BytesOf(part_elements_, kept_in_),
                                         Category::kGradient, BytesOf(padding, kept_in_));
    bucket_ = builder_.AddBuffer(
        "gradient bucket", BytesOf(settings_.reduce_bucket_size, reduced_in_), Category::kGradient);
    if (!offload_.parameters()) builder_.Allocate(step_.compute(), partition_);
    if (!offload_.optimizer()) builder_.Allocate(step_.compute(), flat_gradients_);
    builder_.Allocate(step_.compute(), bucket_);
    if (offload_.optimizer()) {
      std::int64_t largest = 0;
      for (const PartitionedTensor& tensor : tensors_) {
        largest = std::max(largest, tensor.shard.length());
      }
      transit_ = builder_.AddBuffer("gradient from the host", BytesOf(largest, kept_in_),
                                    Category::kGradient);
      widened_ = builder_.AddBuffer("FP32 gradient", Bytes(4 * largest), Category::kGradient);
      builder_.Allocate(step_.compute(), transit_);
      builder_.Allocate(step_.compute(), widened_);
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t) AddTensor(static_cast<int>(t));
  }

  void AddTensor(int index) {
    PartitionedTensor& tensor = tensors_[index];
    const std::string& name = step_.model().tensors[index].name;
    const std::int64_t first = step_.first_element(index);
    const std::int64_t part = tensor.shard.length();
    AddParameterState(step_, At(partition_, tensor.offset, type_), first + groups_.rank * part,
                      tensor.own);
    const std::int64_t whole = tensor.shard.padded();
    const Bytes size = BytesOf(Elements(index), type_);
    tensor.copy_to_bucket =
        AddMemoryKernel("copy_to_bucket", size, BytesOf(Elements(index), reduced_in_));
    const Bytes reduced = BytesOf(part, reduced_in_), kept = BytesOf(part, kept_in_);
    tensor.keep = AddMemoryKernel("copy_gradient_partition", reduced, kept);
    if (plan_.training.gradient_accumulation > 1) {
      tensor.add = AddMemoryKernel("accumulate_gradient", reduced + kept, kept);
    }
    if (offload_.optimizer()) {
      // To FP64, and its norm.
      tensor.square = AddMemoryKernel("norm", kept + Bytes(8 * part), Bytes(8 * part));
      tensor.widen = AddMemoryKernel("cast_gradients", kept, Bytes(4 * part));
    }
    if (ranks_ == 1) return;
    tensor.full =
        builder_.AddBuffer(name, BytesOf(whole, type_),
                           tensor.persistent ? Category::kParameter : Category::kCommunication,
                           BytesOf(whole - Elements(index), type_));
    tensor.copy_out = AddMemoryKernel("copy_from_gathered", size, size);
    tensor.gather = builder_.AddCollective({.kind = CollectiveKind::kAllGather,
                                            .communicator = communicator_,
                                            .bytes = BytesOf(whole, type_),
                                            .data_type = type_});
    if (HasSecondary()) {
      const Bytes length = BytesOf(whole / settings_.hpz_partition_size, type_);
      tensor.secondary = builder_.AddBuffer(name + " (secondary)", length, Category::kParameter);
      tensor.copy_secondary = AddMemoryKernel("copy_secondary", length, length);
    }
    if (!tensor.persistent || Elements(index) == 0) return;
    builder_.Allocate(step_.compute(), tensor.full);
    AddParameterState(step_, At(tensor.full, 0, type_), first, Elements(index));
  }

  // The modules of each layer, and in which order a micro-batch visits them.
  void AddModules() {
    for (const model::LayerWork& work : step_.works()) {
      runs_.push_back(
          {ModuleRunsOf(work.forward), ModuleRunsOf(work.recompute), ModuleRunsOf(work.backward)});
    }
    std::vector<Parameters> visits;
    const auto& layers = step_.model().layers;
    const auto visit = [&](int index, Pass pass) {
      const model::Layer& layer = layers[index];
      for (const ModuleRun& run : runs_[step_.work_of(index)][static_cast<std::size_t>(pass)]) {
        Parameters& parameters = visits.emplace_back();
        for (const int position : run.parameters) parameters.push_back(layer.tensors[position]);
        std::sort(parameters.begin(), parameters.end());
      }
    };
    const int count = static_cast<int>(layers.size());
    for (int layer = 0; layer < count; ++layer) visit(layer, Pass::kForward);
    for (int layer = count - 1; layer >= 0; --layer) {
      visit(layer, Pass::kRecompute);
      visit(layer, Pass::kBackward);
    }
    std::vector<std::int64_t> elements;
    std::vector<bool> persistent;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      elements.push_back(Elements(static_cast<int>(t)));
      persistent.push_back(tensors_[t].persistent);
    }
    coordinator_.emplace(std::move(visits), std::move(elements), std::move(persistent),
                         CoordinatorOptions{.prefetch = settings_.prefetch_bucket_size,
                                            .max_live = settings_.max_live_parameters,
                                            .max_reuse = settings_.max_reuse_distance});
  }

  const ModuleRun* RunAt(Pass pass, int layer, std::size_t op) const {
    const auto& runs = runs_[step_.work_of(layer)][static_cast<std::size_t>(pass)];
    for (const ModuleRun& run : runs) {
      if (op >= run.first && op <= run.last && !run.parameters.empty()) {
        // Kernels without parameters may stand between a module's own.
        return &run;
      }
    }
    return nullptr;
  }

  // Parameters in registration order; a group is closed by the one that fills it.
  void AddSubGroups() {
    std::int64_t padding = 0;
    SubGroup open;
    std::int64_t elements = 0;
    const auto close = [&] {
      if (elements == 0) return;
      if (offload_.optimizer()) {
        open.update.elements = elements;
        sub_groups_.push_back(std::exchange(open, {}));
        elements = padding = 0;
        return;
      }
      open.update = update_->AddGroup("sub-group " + std::to_string(sub_groups_.size()) + "/",
                                      elements, padding);
      for (const int t : open.tensors) {
        const PartitionedTensor& tensor = tensors_[t];
        update_->AddState(open.update, tensor.offset - open.first,
                          step_.first_element(t) + groups_.rank * tensor.shard.length(),
                          tensor.own);
      }
      sub_groups_.push_back(std::exchange(open, {}));
      elements = padding = 0;
    };
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const PartitionedTensor& tensor = tensors_[t];
      if (tensor.shard.length() == 0) continue;
      if (open.tensors.empty()) open.first = tensor.offset;
      open.tensors.push_back(static_cast<int>(t));
      elements += tensor.shard.length();
      padding += tensor.shard.PaddingOfShard(1);
      if (elements >= settings_.sub_group_size) close();
    }
    close();
  }

  void Fetch() {
    const ParameterCoordinator::Fetched fetched = coordinator_->Fetch();
    if (ranks_ == 1) return;
    StartGather(fetched.gather);
    for (const int tensor : fetched.wait) WaitFor(tensor);
    if (overlap_ && !fetched.wait.empty()) {
      builder_.WaitForStream(step_.compute(), gather_stream_, fetched_);
    }
    StartGather(fetched.prefetch);
  }

  // Asks for parameters: those of which there is a secondary copy apart from the others.
  void StartGather(const Parameters& asked) {
    for (const bool secondary : {true, false}) {
      Parameters parameters;
      for (const int tensor : asked) {
        if (Elements(tensor) > 0 && tensors_[tensor].has_secondary == secondary) {
          parameters.push_back(tensor);
        }
      }
      if (!parameters.empty()) StartGather(GatherOf(parameters, secondary));
    }
  }

  // The collective runs on NCCL's own stream.
  void StartGather(Gather& gather) {
    const bool alone = gather.parameters.size() == 1;
    const bool packed = gather.packed != kNone;
    if (gather.staged != kNone) Stage(gather_stream_, gather.staged);
    std::vector<BufferUse> sources;
    for (const int t : gather.parameters) {
      sources.push_back(gather.secondary         ? builder_.ReadsAll(tensors_[t].secondary)
                        : gather.staged != kNone ? builder_.ReadsAll(gather.staged)
                                                 : PartOf(tensors_[t]));
      in_flight_[t] = &gather;
    }
    gather.waiting = static_cast<int>(gather.parameters.size());
    gather.complete = false;
    if (packed) {
      for (const Index buffer : {gather.packed, gather.flat_packed, gather.scales}) {
        builder_.Allocate(gather_stream_, buffer);
      }
      sources.push_back(builder_.WritesAll(gather.packed));
      builder_.Run(gather_stream_, gather.quantise, sources);
      builder_.WaitForStream(nccl_stream_, gather_stream_, launched_);
      builder_.Communicate(
          nccl_stream_, gather.collective,
          {builder_.ReadsAll(gather.packed), builder_.WritesAll(gather.flat_packed)});
      builder_.Communicate(nccl_stream_, gather.scale_collective,
                           {builder_.ReadsAll(gather.packed), builder_.WritesAll(gather.scales)});
    } else if (alone) {
      const PartitionedTensor& tensor = tensors_[gather.parameters.front()];
      builder_.Allocate(gather_stream_, tensor.full);
      builder_.WaitForStream(nccl_stream_, gather_stream_, launched_);
      builder_.With(Collected(At(tensor.full, 0, type_), SourceOf(tensor, gather),
                              gather.part * gather.ranks));
      sources.push_back(builder_.WritesAll(tensor.full));
      builder_.Communicate(nccl_stream_, gather.collective, sources);
    } else {
      builder_.Allocate(gather_stream_, gather.flat);
      const program::Elements own = At(gather.flat, gather.index * gather.part, type_);
      std::int64_t offset = 0;
      for (const int t : gather.parameters) {
        const std::int64_t length = PartLength(tensors_[t], gather);
        builder_.With(
            Move(Further(own, offset), SourceOf(tensors_[t], gather),
                 std::clamp<std::int64_t>(Elements(t) - gather.index * length, 0, length)));
        offset += length;
      }
      sources.push_back(Writes(gather.flat, own.offset, BytesOf(gather.part, type_)));
      builder_.Run(gather_stream_, gather.copy_in, sources);
      builder_.WaitForStream(nccl_stream_, gather_stream_, launched_);
      builder_.With(Collected(At(gather.flat, 0, type_), own, gather.part * gather.ranks));
      builder_.Communicate(nccl_stream_, gather.collective, {builder_.WritesAll(gather.flat)});
    }
    builder_.Record(nccl_stream_, gather.gathered);
    if (gather.staged != kNone && (packed || !alone)) builder_.Release(gather.staged);
  }

  // Brings offloaded parts to the device.
  void Stage(StreamId stream, Index staged) {
    builder_.Allocate(stream, staged);
    offload_.ParametersInto(stream, builder_.SizeOf(staged));
    offload_.ToDevice(stream, builder_.SizeOf(staged), {builder_.WritesAll(staged)});
  }

  static std::int64_t PartLength(const PartitionedTensor& tensor, const Gather& gather) {
    return tensor.shard.padded() / gather.ranks;
  }
  program::Elements SourceOf(const PartitionedTensor& tensor, const Gather& gather) const {
    return gather.secondary ? At(tensor.secondary, 0, type_) : At(partition_, tensor.offset, type_);
  }

  Gather& GatherOf(const Parameters& parameters, bool secondary) {
    Gather& gather = gathers_[{parameters, secondary}];
    if (gather.collective != kNone) return gather;
    gather.parameters = parameters;
    gather.secondary = secondary;
    gather.ranks = secondary ? settings_.hpz_partition_size : ranks_;
    gather.index = groups_.rank % gather.ranks;
    for (const int t : parameters) gather.part += PartLength(tensors_[t], gather);
    const Index communicator = secondary ? secondary_communicator_ : communicator_;
    const std::string name = "gathered parameters " + std::to_string(gathers_.size() - 1);
    const std::int64_t whole = gather.part * gather.ranks;
    const Bytes part = BytesOf(gather.part, type_);
    const bool several = parameters.size() > 1;
    const auto buffer = [&](const char* what, Bytes size) {
      return builder_.AddBuffer(name + what, size, Category::kCommunication);
    };
    gather.gathered = builder_.AddEvent(name);
    if (offload_.parameters() && !secondary) gather.staged = buffer(" from the host", part);
    if (several) {
      gather.flat = buffer("", BytesOf(whole, type_));
      gather.copy_in = AddMemoryKernel("copy_to_gathered", part, part);
    }
    program::Collective collective{.kind = CollectiveKind::kAllGather,
                                   .communicator = communicator,
                                   .bytes = BytesOf(whole, type_),
                                   .data_type = type_};
    if (settings_.quantized_weights) {
      // A scale for every group of at most 8000 values (CUDAQuantizer.target_group_size).
      const Bytes scales(4 * ((gather.part + 7999) / 8000));
      const Bytes small(gather.part);
      gather.packed = buffer(" (8 bits, own)", small + scales);
      gather.flat_packed = buffer(" (8 bits)", gather.ranks * small);
      gather.scales = buffer(" (scales)", gather.ranks * scales);
      // Several are put behind one another first.
      const Bytes together = several ? part : Bytes();
      gather.quantise = AddMemoryKernel("quantise", part + together, small + scales + together);
      gather.dequantise =
          AddMemoryKernel("dequantise", gather.ranks * (small + scales), BytesOf(whole, type_));
      collective.bytes = gather.ranks * small;
      collective.data_type = DataType::kFp8;
      program::Collective of_scales = collective;
      of_scales.bytes = gather.ranks * scales;
      of_scales.data_type = DataType::kFp32;
      gather.scale_collective = builder_.AddCollective(of_scales);
    }
    gather.collective = builder_.AddCollective(collective);
    return gather;
  }

  // Takes a parameter off the list of those in flight.
  void WaitFor(int index) {
    const auto found = in_flight_.find(index);
    if (found == in_flight_.end()) return;  // empty
    fetches_.Wait(builder_);
    Gather& gather = *found->second;
    in_flight_.erase(found);
    if (!gather.complete) Complete(gather);
    if (--gather.waiting == 0 && gather.flat != kNone) builder_.Release(gather.flat);
    fetches_.Record(builder_, gather_stream_);
  }

  // All parameters of the collective come out when the first one is waited for.
  void Complete(Gather& gather) {
    gather.complete = true;
    const bool alone = gather.parameters.size() == 1;
    builder_.Wait(gather_stream_, gather.gathered);
    if (gather.packed != kNone) {
      const Index target = alone ? tensors_[gather.parameters.front()].full : gather.flat;
      builder_.Allocate(gather_stream_, target);
      builder_.Run(gather_stream_, gather.dequantise,
                   {builder_.ReadsAll(gather.flat_packed), builder_.ReadsAll(gather.scales),
                    builder_.WritesAll(target)});
      for (const Index buffer : {gather.packed, gather.flat_packed, gather.scales}) {
        builder_.Release(buffer);
      }
    } else if (alone && gather.staged != kNone) {
      builder_.Release(gather.staged);
    }
    if (alone) return;
    std::int64_t offset = 0;
    for (const int t : gather.parameters) {
      const PartitionedTensor& tensor = tensors_[t];
      const std::int64_t length = PartLength(tensor, gather);
      builder_.Allocate(gather_stream_, tensor.full);
      builder_.With(
          InBlocks(Move(At(tensor.full, 0, type_), At(gather.flat, offset, type_), Elements(t)),
                   length, length, gather.part));
      builder_.Run(gather_stream_, tensor.copy_out,
                   {builder_.ReadsAll(gather.flat), builder_.WritesAll(tensor.full)});
      offset += length;
    }
  }

  // What the device may still be reading. A secondary copy is made of it first, every time, and the
  // host waits for that (_partition_param_sec).
  void Free(int index) {
    PartitionedTensor& tensor = tensors_[index];
    if (ranks_ == 1 || Elements(index) == 0) return;
    if (tensor.secondary != kNone && !tensor.persistent) {
      const StreamId compute = step_.compute();
      if (!tensor.has_secondary) builder_.Allocate(compute, tensor.secondary);
      tensor.has_secondary = true;
      const std::int64_t length = tensor.shard.padded() / settings_.hpz_partition_size;
      const std::int64_t first = groups_.rank % settings_.hpz_partition_size * length;
      builder_.With(Move(At(tensor.secondary, 0, type_), At(tensor.full, first, type_),
                         std::clamp<std::int64_t>(Elements(index) - first, 0, length)));
      builder_.Run(compute, tensor.copy_secondary,
                   {builder_.ReadsAll(tensor.full), builder_.WritesAll(tensor.secondary)});
      builder_.Record(compute, kept_);
      builder_.HostWait(kept_);
    }
    if (overlap_ && !tensor.persistent) builder_.RecordStream(step_.compute(), tensor.full);
    builder_.Release(tensor.full);
    if (overlap_ && !tensor.persistent) StayBehind(tensor.shard.padded());
  }

  // Memory that the device still reads cannot be used again. An allocator that has none left makes
  // the host wait for the device; without a model of that moment the host is held as soon as more
  // than max_live_parameters elements are freed and still read, far enough ahead to hide gathers.
  void StayBehind(std::int64_t elements) {
    if (spare_events_.empty()) {
      spare_events_.push_back(
          builder_.AddEvent("freed parameters read " + std::to_string(freed_.size())));
    }
    const Index event = spare_events_.back();
    spare_events_.pop_back();
    builder_.Record(step_.compute(), event);
    freed_.push_back({event, elements});
    freed_elements_ += elements;
    while (freed_elements_ > settings_.max_live_parameters && freed_.size() > 1) {
      builder_.HostWait(freed_.front().first);
      spare_events_.push_back(freed_.front().first);
      freed_elements_ -= freed_.front().second;
      freed_.pop_front();
    }
  }

  void FreeGradient(int tensor) {
    if (overlap_) builder_.RecordStream(reduce_stream_, gradients_.buffer(tensor));
    gradients_.Release(tensor);
  }

  // Reduces what is in the bucket.
  void Reduce() {
    reductions_.Wait(builder_);
    std::sort(entries_.begin(), entries_.end(),
              [](const BucketEntry& a, const BucketEntry& b) { return a.tensor < b.tensor; });
    const bool in_bucket = bucket_elements_ <= settings_.reduce_bucket_size;
    if (!settings_.reduce_scatter && in_bucket) {
      AllReduceBucket();
    } else if (ExchangesQuantised()) {
      // Tensor by tensor.
      for (const BucketEntry& entry : entries_) {
        if (CanBeExchanged(entry.tensor)) {
          Exchange(entry);
        } else {
          ReduceScatter({&entry, 1});
        }
      }
    } else {
      ReduceScatter(entries_);
    }
    if (offload_.optimizer() && step_.last_micro_batch()) {
      // FP32 values go to the host in copies that it waits for.
      builder_.Record(reduce_stream_, reduced_);
      builder_.HostWait(reduced_);
    }
    for (const BucketEntry& entry : entries_) {
      if (entry.alone) FreeGradient(entry.tensor);
    }
    entries_.clear();
    bucket_elements_ = 0;
    reductions_.Record(builder_, reduce_stream_);
  }

  void ReduceScatter(std::span<const BucketEntry> entries) {
    const BucketReduction& reduction = ReductionOf(entries);
    std::int64_t part = 0;
    for (const BucketEntry& entry : entries) part += tensors_[entry.tensor].shard.length();
    program::Elements whole = entries.front().place;
    if (reduction.interleaved != kNone) {
      whole = At(reduction.interleaved, 0, reduced_in_);
      builder_.Allocate(reduce_stream_, reduction.interleaved);
      std::vector<BufferUse> uses{builder_.WritesAll(reduction.interleaved)};
      std::int64_t offset = 0;
      for (const BucketEntry& entry : entries) {
        const std::int64_t length = tensors_[entry.tensor].shard.length();
        const std::int64_t elements = Elements(entry.tensor);
        uses.push_back(
            Reads(entry.place.buffer, entry.place.offset, BytesOf(elements, entry.place.type)));
        // What was copied into the bucket was divided there.
        const double scale = entry.alone ? 1.0 / static_cast<double>(ranks_) : 1.0;
        builder_.With(InBlocks(Scaled(scale, Move(Further(whole, offset), entry.place, elements)),
                               length, part, length));
        offset += length;
      }
      builder_.Run(reduce_stream_, reduction.interleave, uses);
    }
    const BufferUse use = Writes(whole.buffer, whole.offset, BytesOf(part * ranks_, whole.type));
    builder_.Run(reduce_stream_, reduction.divide, {use});
    program::Elements own = whole;
    if (reduction.collective != kNone) {
      own = Further(whole, groups_.rank * part);
      builder_.With(Collected(own, whole, part * ranks_));
      builder_.Communicate(reduce_stream_, reduction.collective, {use});
    }
    for (const BucketEntry& entry : entries) {
      KeepGradient(entry.tensor, own);
      own = Further(own, tensors_[entry.tensor].shard.length());
    }
    if (reduction.interleaved != kNone) builder_.Release(reduction.interleaved);
  }

  // Matrices whose elements divide (all_to_all_quant_reduce).
  bool CanBeExchanged(int tensor) const {
    return step_.model().tensors[tensor].shape.size() > 1 && Elements(tensor) % (2 * ranks_) == 0;
  }

  // Four bits a value and a scale for each of its groups go all to all inside the node; what came
  // is summed and goes, a part for each GPU of a node, all to all across nodes.
  void Exchange(const BucketEntry& entry) {
    const QuantisedExchange& exchange = ExchangeOf(entry.tensor);
    const std::int64_t elements = Elements(entry.tensor);
    const BufferUse gradient =
        Reads(entry.place.buffer, entry.place.offset, BytesOf(elements, entry.place.type));
    for (const Index buffer :
         {exchange.packed, exchange.exchanged, exchange.summed, exchange.result}) {
      builder_.Allocate(reduce_stream_, buffer);
    }
    builder_.Run(reduce_stream_, exchange.quantise,
                 {gradient, builder_.WritesAll(exchange.packed)});
    const auto send = [&](Index collective, Index from, Index to) {
      builder_.Communicate(reduce_stream_, collective,
                           {builder_.ReadsAll(from), builder_.WritesAll(to)});
    };
    send(exchange.inside, exchange.packed, exchange.exchanged);
    send(exchange.inside_scales, exchange.packed, exchange.exchanged);
    builder_.Run(reduce_stream_, exchange.sum,
                 {builder_.ReadsAll(exchange.exchanged), builder_.WritesAll(exchange.summed)});
    send(exchange.across, exchange.summed, exchange.exchanged);
    send(exchange.across_scales, exchange.summed, exchange.exchanged);
    builder_.Run(reduce_stream_, exchange.dequantise,
                 {builder_.ReadsAll(exchange.exchanged), builder_.WritesAll(exchange.result)});
    builder_.Run(reduce_stream_, exchange.average, {builder_.WritesAll(exchange.result)});
    KeepGradient(entry.tensor, At(exchange.result, 0, reduced_in_));
    for (const Index buffer :
         {exchange.packed, exchange.exchanged, exchange.summed, exchange.result}) {
      builder_.Release(buffer);
    }
  }

  const QuantisedExchange& ExchangeOf(int index) {
    QuantisedExchange& exchange = exchanges_[index];
    if (exchange.inside != kNone) return exchange;
    const model::Tensor& tensor = step_.model().tensors[index];
    const std::int64_t node = RanksOfNode();
    const std::int64_t groups = std::max({tensor.shape[0], tensor.shape[1], ranks_});
    const Bytes half(tensor.elements / 2), scales(4 * groups);
    const Bytes half_part(half.count() / node), scales_part(4 * (groups / node));
    const Bytes result = BytesOf(tensor.elements / node, reduced_in_);
    const auto buffer = [&](const char* what, Bytes size) {
      return builder_.AddBuffer(tensor.name + what, size, Category::kCommunication);
    };
    exchange.packed = buffer(" (4 bits)", half + scales);
    exchange.exchanged = buffer(" (4 bits, exchanged)", half + scales);
    exchange.summed = buffer(" (4 bits, summed)", half_part + scales_part);
    exchange.result = buffer(" (summed)", result);
    exchange.quantise =
        AddMemoryKernel("quantise", BytesOf(tensor.elements, reduced_in_), half + scales);
    exchange.sum = AddMemoryKernel("quantised_reduction", half + scales, half_part + scales_part);
    exchange.dequantise = AddMemoryKernel("dequantise", half_part + scales_part, result);
    exchange.average =
        AddMemoryKernel("sum_nodes", result, BytesOf(tensor.elements / ranks_, reduced_in_));
    const auto all_to_all = [&](Index communicator, Bytes bytes, DataType type) {
      return builder_.AddCollective({.kind = CollectiveKind::kAllToAll,
                                     .communicator = communicator,
                                     .bytes = bytes,
                                     .data_type = type});
    };
    exchange.inside = all_to_all(node_communicator_, half, DataType::kFp8);
    exchange.inside_scales = all_to_all(node_communicator_, scales, DataType::kFp32);
    exchange.across = all_to_all(rail_communicator_, half_part, DataType::kFp8);
    exchange.across_scales = all_to_all(rail_communicator_, scales_part, DataType::kFp32);
    return exchange;
  }

  const BucketReduction& ReductionOf(std::span<const BucketEntry> entries) {
    std::vector<int> content;
    std::int64_t part = 0, elements = 0;
    for (const BucketEntry& entry : entries) {
      content.push_back(entry.tensor);
      part += tensors_[entry.tensor].shard.length();
      elements += Elements(entry.tensor);
    }
    BucketReduction& reduction = reductions_of_[content];
    if (reduction.divide != kNone) return reduction;
    const BucketEntry& first = entries.front();
    const Bytes size = BytesOf(part * ranks_, reduced_in_);
    // One tensor that divides is reduced where it lies.
    const bool in_place =
        entries.size() == 1 && elements == part * ranks_ && first.place.type == reduced_in_;
    if (!in_place) {
      reduction.interleaved = builder_.AddBuffer(
          "interleaved gradients " + std::to_string(reductions_of_.size() - 1), size,
          Category::kCommunication, BytesOf(part * ranks_ - elements, reduced_in_));
      reduction.interleave =
          AddMemoryKernel("interleave_gradients", BytesOf(elements, first.place.type), size);
    }
    reduction.divide = AddMemoryKernel("divide", size, size);
    if (communicator_ != kNone) {
      reduction.collective = builder_.AddCollective({.kind = CollectiveKind::kReduceScatter,
                                                     .communicator = communicator_,
                                                     .bytes = size,
                                                     .data_type = reduced_in_,
                                                     .average = in_place && first.alone});
    }
    return reduction;
  }

  // reduce_scatter: false. The bucket as it is, in the order in which it was filled.
  void AllReduceBucket() {
    const Bytes size = BytesOf(bucket_elements_, reduced_in_);
    const BufferUse use = Writes(bucket_, Bytes(0), size);
    builder_.Run(reduce_stream_, AddMemoryKernel("divide", size, size), {use});
    if (communicator_ != kNone) {
      const program::Elements whole = At(bucket_, 0, reduced_in_);
      builder_.With(Collected(whole, whole, bucket_elements_));
      builder_.Communicate(reduce_stream_,
                           builder_.AddCollective({.kind = CollectiveKind::kAllReduce,
                                                   .communicator = communicator_,
                                                   .bytes = size,
                                                   .data_type = reduced_in_}),
                           {use});
    }
    for (const BucketEntry& entry : entries_) {
      // A rank beyond the tensor's last element has nothing to copy.
      const std::int64_t before =
          std::min(groups_.rank * tensors_[entry.tensor].shard.length(), Elements(entry.tensor));
      KeepGradient(entry.tensor, Further(entry.place, before));
    }
  }

  // This rank's part of a reduced gradient, to or onto its flat gradients.
  void KeepGradient(int index, const program::Elements& source) {
    const PartitionedTensor& tensor = tensors_[index];
    if (tensor.shard.length() == 0) return;
    if (offload_.optimizer()) {
      KeepOnHost(tensor, Reads(source.buffer, source.offset, BytesOf(tensor.own, source.type)));
      return;
    }
    const bool first = step_.micro_batch() == 0;
    const program::Effect move =
        Move(At(flat_gradients_, tensor.offset, kept_in_), source, tensor.own);
    builder_.With(first ? move : Added(move));
    builder_.Run(reduce_stream_, first ? tensor.keep : tensor.add,
                 {Reads(source.buffer, source.offset, BytesOf(tensor.own, source.type)),
                  Writes(flat_gradients_, BytesOf(tensor.offset, kept_in_),
                         BytesOf(tensor.shard.length(), kept_in_))});
  }

  // Gradients add up on the device, those of earlier micro-batches coming back for it; even the
  // first ones come back once they have been kept. After the last one FP32 values go to the host.
  void KeepOnHost(const PartitionedTensor& tensor, const BufferUse& reduced) {
    const std::int64_t part = tensor.shard.length();
    const Bytes kept = BytesOf(part, kept_in_);
    const BufferUse transit = Writes(transit_, Bytes(0), kept);
    if (step_.micro_batch() == 0) {
      offload_.ToHost(reduce_stream_, kept, {reduced});
      offload_.ToDevice(reduce_stream_, kept, {transit});
    } else {
      offload_.ToDevice(reduce_stream_, kept, {transit});
      builder_.Run(reduce_stream_, tensor.add, {reduced, transit});
      offload_.ToHost(reduce_stream_, kept, {Reads(transit_, Bytes(0), kept)});
    }
    if (!step_.last_micro_batch()) return;
    const Bytes wide(4 * part);
    builder_.Run(reduce_stream_, tensor.square, {Reads(transit_, Bytes(0), kept)});
    builder_.Run(reduce_stream_, tensor.widen,
                 {Reads(transit_, Bytes(0), kept), Writes(widened_, Bytes(0), wide)});
    offload_.ToHost(reduce_stream_, wide, {Reads(widened_, Bytes(0), wide)});
    offload_.GradientsOnward(reduce_stream_, part);
  }

  // offload_optimizer: the gradients and their norm are there. Updated parameters come back to
  // where they are kept.
  void UpdateOnHost() {
    const StreamId compute = step_.compute();
    update_->AgreeOnScalar();
    builder_.Record(compute, reduced_);
    builder_.HostWait(reduced_);
    for (const SubGroup& group : sub_groups_) {
      const Bytes size = BytesOf(group.update.elements, type_);
      offload_.Update(group.update.elements);
      offload_.ParametersOnward(size);
      if (offload_.parameters()) continue;
      offload_.ToDevice(compute, size, {Writes(partition_, BytesOf(group.first, type_), size)});
    }
  }

  // One collective each, all asked for at once; then the host waits.
  void GatherPersistent() {
    if (persistent_.empty()) return;
    const StreamId compute = step_.compute();
    Index staged = kNone;
    if (offload_.parameters()) {
      std::int64_t elements = 0;
      for (const int tensor : persistent_) elements += tensors_[tensor].shard.length();
      staged = builder_.AddBuffer("small parameters from the host", BytesOf(elements, type_),
                                  Category::kCommunication);
      Stage(compute, staged);
    }
    for (const int tensor : persistent_) builder_.Allocate(compute, tensors_[tensor].full);
    builder_.WaitForStream(nccl_stream_, compute, launched_);
    for (const int index : persistent_) {
      const PartitionedTensor& tensor = tensors_[index];
      builder_.With(Collected(At(tensor.full, 0, type_), At(partition_, tensor.offset, type_),
                              tensor.shard.padded()));
      builder_.Communicate(nccl_stream_, tensor.gather,
                           {staged != kNone ? builder_.ReadsAll(staged) : PartOf(tensor),
                            builder_.WritesAll(tensor.full)});
    }
    builder_.WaitForStream(compute, nccl_stream_, gathered_);
    builder_.HostWait(gathered_);
    if (staged != kNone) builder_.Release(staged);
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Plan& plan_;
  const plan::DeepSpeed& settings_;
  const bool overlap_;
  const ProcessGroups groups_;
  const std::int64_t ranks_;
  const DataType type_, reduced_in_, kept_in_;

  StreamId gather_stream_ = 0, reduce_stream_ = 0, nccl_stream_ = 0;
  Index communicator_ = kNone, secondary_communicator_ = kNone;
  Index node_communicator_ = kNone, rail_communicator_ = kNone;
  Index launched_ = kNone, fetched_ = kNone, gradient_made_ = kNone, reduced_ = kNone;
  Index updated_ = kNone, kept_ = kNone, gathered_ = kNone;
  HostOffload offload_;
  Index transit_ = kNone, widened_ = kNone;  // buffers between device and host
  Backpressure fetches_, reductions_;

  std::vector<PartitionedTensor> tensors_;  // as the model's
  std::vector<int> persistent_;
  std::int64_t part_elements_ = 0;  // of this rank
  Index partition_ = kNone, flat_gradients_ = kNone, bucket_ = kNone;
  std::vector<std::array<std::vector<ModuleRun>, 3>> runs_;  // by work, then pass
  std::optional<ParameterCoordinator> coordinator_;
  std::map<std::pair<Parameters, bool>, Gather> gathers_;  // by content; from secondary copies
  std::map<int, Gather*> in_flight_;
  std::deque<std::pair<Index, std::int64_t>> freed_;  // events, elements: perhaps still read
  std::int64_t freed_elements_ = 0;
  std::vector<Index> spare_events_;
  std::map<int, QuantisedExchange> exchanges_;  // by tensor

  Operations operations_;
  LocalGradients gradients_;
  std::vector<BucketEntry> entries_;
  std::int64_t bucket_elements_ = 0;
  std::map<std::vector<int>, BucketReduction> reductions_of_;
  std::optional<DeepSpeedUpdate> update_;
  std::vector<SubGroup> sub_groups_;
};

}  // namespace

program::Program LowerDeepSpeedStage3(const scenario::Scenario& scenario,
                                      const LowerOptions& options) {
  TrainingStep step(scenario, options);
  Stage3 technique(step);
  return step.Write(technique);
}

}  // namespace stepcast::lowering
