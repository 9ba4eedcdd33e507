#include "src/lowering/deepspeed_stage3.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/lowering/deepspeed_update.h"
#include "src/lowering/effects.h"
#include "src/lowering/framework_memory.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/model_state.h"
#include "src/lowering/module_runs.h"
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
  Index full = kNone;      // buffer
  Index gather = kNone;    // collective, of this parameter alone
  Index gathered = kNone;  // event
  Index copy_out = kNone, copy_to_bucket = kNone, keep = kNone, add = kNone;  // kernels
};

// Several parameters gathered in one collective.
struct CoalescedGather {
  Index flat = kNone;     // buffer
  Index copy_in = kNone;  // kernel
  Index collective = kNone;
  Index gathered = kNone;  // event
  std::int64_t part = 0;   // elements of each rank
  int waiting = 0;         // parameters that nobody has waited for yet
  bool complete = false;
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
        gradients_(step, type_) {}

  void WritePrologue() override {
    const StreamId compute = step_.compute();
    gather_stream_ = overlap_ ? builder_.AddStream("all-gather") : compute;
    reduce_stream_ = overlap_ ? builder_.AddStream("reduce and partition") : compute;
    nccl_stream_ = builder_.AddStream("nccl data");
    communicator_ = builder_.AddCommunicator("data", groups_.data);
    AllocateFrameworkWorkspaces(step_, {compute});
    launched_ = builder_.AddEvent("gather asked for");
    fetched_ = builder_.AddEvent("fetched");
    gradient_made_ = builder_.AddEvent("gradient made");
    reduced_ = builder_.AddEvent("gradients reduced");
    updated_ = builder_.AddEvent("updated");
    fetches_.AddEvents(builder_, "fetched");
    reductions_.AddEvents(builder_, "reduced");
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

  void BeforeOperator(Pass pass, int layer, std::size_t op, std::vector<BufferUse>& uses) override {
    const ModuleRun* run = RunAt(pass, layer, op);
    if (run == nullptr) return;
    if (run->first == op) Fetch();
    for (const int position : run->parameters) {
      const int tensor = step_.model().layers[layer].tensors[position];
      const program::Elements place = ParameterPlace(tensor);
      uses.push_back(Reads(place.buffer, place.offset, BytesOf(Elements(tensor), type_)));
    }
  }

  void AfterOperator(Pass pass, int layer, std::size_t op) override {
    const ModuleRun* run = RunAt(pass, layer, op);
    if (run == nullptr || run->last != op) return;
    // Without a gradient for the module's input its hook behind backward does not run.
    if (pass == Pass::kBackward && layer == 0) return;
    for (const int tensor : coordinator_->Release()) Free(tensor);
  }

  void WriteGradient(int /*layer*/, int tensor, std::vector<BufferUse>& uses) override {
    gradients_.Write(tensor, ParameterPlace(tensor), uses);
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
    update_->CheckOverflow(reduce_stream_, 1, part_elements_, {builder_.ReadsAll(flat_gradients_)});
    for (const SubGroup& group : sub_groups_) {
      update_->TakeNorm(static_cast<std::int64_t>(group.tensors.size()), group.update.elements,
                        {GradientsOf(group)});
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
      update_->Apply(
          group.update,
          {Writes(partition_, BytesOf(group.first, type_), BytesOf(group.update.elements, type_))},
          updates);
    }
    GatherPersistent();
    builder_.Record(compute, updated_);
  }

 private:
  struct SubGroup {
    std::vector<int> tensors;
    std::int64_t first = 0;  // element of this rank's parts
    UpdateGroup update;
  };

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

  Index MemoryKernel(const char* name, Bytes read, Bytes written) {
    return builder_.AddKernel({.name = name,
                               .kind = KernelKind::kMemoryBound,
                               .data_type = type_,
                               .read = read,
                               .written = written});
  }

  void AddTensors() {
    std::int64_t padding = 0;
    for (const model::Tensor& model_tensor : step_.model().tensors) {
      const auto index = static_cast<int>(tensors_.size());
      PartitionedTensor& tensor = tensors_.emplace_back();
      tensor.shard = {.elements = model_tensor.elements, .ranks = ranks_};
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
    for (const Index buffer : {partition_, flat_gradients_, bucket_}) {
      builder_.Allocate(step_.compute(), buffer);
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
        MemoryKernel("copy_to_bucket", size, BytesOf(Elements(index), reduced_in_));
    const Bytes reduced = BytesOf(part, reduced_in_), kept = BytesOf(part, kept_in_);
    tensor.keep = MemoryKernel("copy_gradient_partition", reduced, kept);
    if (plan_.training.gradient_accumulation > 1) {
      tensor.add = MemoryKernel("accumulate_gradient", reduced + kept, kept);
    }
    if (ranks_ == 1) return;
    tensor.full =
        builder_.AddBuffer(name, BytesOf(whole, type_),
                           tensor.persistent ? Category::kParameter : Category::kCommunication,
                           BytesOf(whole - Elements(index), type_));
    tensor.copy_out = MemoryKernel("copy_from_gathered", size, size);
    tensor.gather = builder_.AddCollective({.kind = CollectiveKind::kAllGather,
                                            .communicator = communicator_,
                                            .bytes = BytesOf(whole, type_),
                                            .data_type = type_});
    tensor.gathered = builder_.AddEvent(name + " gathered");
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
    const auto visit = [&](const model::Layer& layer, Pass pass) {
      for (const ModuleRun& run : runs_[layer.work][static_cast<std::size_t>(pass)]) {
        Parameters& parameters = visits.emplace_back();
        for (const int position : run.parameters) parameters.push_back(layer.tensors[position]);
        std::sort(parameters.begin(), parameters.end());
      }
    };
    const auto& layers = step_.model().layers;
    for (const model::Layer& layer : layers) visit(layer, Pass::kForward);
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      visit(*layer, Pass::kRecompute);
      visit(*layer, Pass::kBackward);
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
    const auto& runs = runs_[step_.model().layers[layer].work][static_cast<std::size_t>(pass)];
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

  // Asks for parameters. The collective runs on NCCL's own stream.
  void StartGather(const Parameters& asked) {
    Parameters parameters;
    for (const int tensor : asked) {
      if (Elements(tensor) > 0) parameters.push_back(tensor);
    }
    if (parameters.empty()) return;
    if (parameters.size() == 1) {
      const PartitionedTensor& tensor = tensors_[parameters.front()];
      builder_.Allocate(gather_stream_, tensor.full);
      builder_.WaitForStream(nccl_stream_, gather_stream_, launched_);
      RunGather(tensor, nccl_stream_);
      builder_.Record(nccl_stream_, tensor.gathered);
      in_flight_[parameters.front()] = nullptr;
      return;
    }
    CoalescedGather& gather = GatherOf(parameters);
    builder_.Allocate(gather_stream_, gather.flat);
    std::vector<BufferUse> uses;
    const program::Elements own = At(gather.flat, groups_.rank * gather.part, type_);
    std::int64_t offset = 0;
    for (const int t : parameters) {
      uses.push_back(PartOf(tensors_[t]));
      builder_.With(
          Move(Further(own, offset), At(partition_, tensors_[t].offset, type_), tensors_[t].own));
      offset += tensors_[t].shard.length();
      in_flight_[t] = &gather;
    }
    uses.push_back(Writes(gather.flat, own.offset, BytesOf(gather.part, type_)));
    builder_.Run(gather_stream_, gather.copy_in, uses);
    builder_.WaitForStream(nccl_stream_, gather_stream_, launched_);
    builder_.With(Collected(At(gather.flat, 0, type_), own, gather.part * ranks_));
    builder_.Communicate(nccl_stream_, gather.collective, {builder_.WritesAll(gather.flat)});
    builder_.Record(nccl_stream_, gather.gathered);
    gather.waiting = static_cast<int>(parameters.size());
    gather.complete = false;
  }

  void RunGather(const PartitionedTensor& tensor, StreamId stream) {
    builder_.With(Collected(At(tensor.full, 0, type_), At(partition_, tensor.offset, type_),
                            tensor.shard.padded()));
    builder_.Communicate(stream, tensor.gather, {PartOf(tensor), builder_.WritesAll(tensor.full)});
  }

  CoalescedGather& GatherOf(const Parameters& parameters) {
    CoalescedGather& gather = gathers_[parameters];
    if (gather.flat != kNone) return gather;
    for (const int t : parameters) gather.part += tensors_[t].shard.length();
    const std::string name = "gathered parameters " + std::to_string(gathers_.size() - 1);
    const Bytes part = BytesOf(gather.part, type_);
    gather.flat =
        builder_.AddBuffer(name, BytesOf(gather.part * ranks_, type_), Category::kCommunication);
    gather.copy_in = MemoryKernel("copy_to_gathered", part, part);
    gather.collective = builder_.AddCollective({.kind = CollectiveKind::kAllGather,
                                                .communicator = communicator_,
                                                .bytes = builder_.SizeOf(gather.flat),
                                                .data_type = type_});
    gather.gathered = builder_.AddEvent(name);
    return gather;
  }

  // Takes a parameter off the list of those in flight.
  void WaitFor(int index) {
    const auto found = in_flight_.find(index);
    if (found == in_flight_.end()) return;  // empty
    fetches_.Wait(builder_);
    CoalescedGather* gather = found->second;
    in_flight_.erase(found);
    if (gather == nullptr) {
      builder_.Wait(gather_stream_, tensors_[index].gathered);
    } else {
      if (!gather->complete) CopyOut(index, *gather);
      if (--gather->waiting == 0) builder_.Release(gather->flat);
    }
    fetches_.Record(builder_, gather_stream_);
  }

  // All parameters of the collective come out when the first one is waited for.
  void CopyOut(int index, CoalescedGather& gather) {
    builder_.Wait(gather_stream_, gather.gathered);
    const auto content = std::find_if(gathers_.begin(), gathers_.end(),
                                      [&](const auto& entry) { return &entry.second == &gather; });
    STEPCAST_CHECK(content != gathers_.end() &&
                       std::binary_search(content->first.begin(), content->first.end(), index),
                   "a gather holds what waits for it");
    std::int64_t offset = 0;
    for (const int t : content->first) {
      const PartitionedTensor& tensor = tensors_[t];
      const std::int64_t part = tensor.shard.length();
      builder_.Allocate(gather_stream_, tensor.full);
      builder_.With(
          InBlocks(Move(At(tensor.full, 0, type_), At(gather.flat, offset, type_), Elements(t)),
                   part, part, gather.part));
      builder_.Run(gather_stream_, tensor.copy_out,
                   {builder_.ReadsAll(gather.flat), builder_.WritesAll(tensor.full)});
      offset += part;
    }
    gather.complete = true;
  }

  // What the device may still be reading.
  void Free(int tensor) {
    if (ranks_ == 1 || Elements(tensor) == 0) return;
    if (overlap_ && !tensors_[tensor].persistent) {
      builder_.RecordStream(step_.compute(), tensors_[tensor].full);
    }
    builder_.Release(tensors_[tensor].full);
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
    } else {
      ReduceScatter();
    }
    for (const BucketEntry& entry : entries_) {
      if (entry.alone) FreeGradient(entry.tensor);
    }
    entries_.clear();
    bucket_elements_ = 0;
    reductions_.Record(builder_, reduce_stream_);
  }

  void ReduceScatter() {
    const BucketReduction& reduction = ReductionOf();
    std::int64_t part = 0;
    for (const BucketEntry& entry : entries_) part += tensors_[entry.tensor].shard.length();
    program::Elements whole = entries_.front().place;
    if (reduction.interleaved != kNone) {
      whole = At(reduction.interleaved, 0, reduced_in_);
      builder_.Allocate(reduce_stream_, reduction.interleaved);
      std::vector<BufferUse> uses{builder_.WritesAll(reduction.interleaved)};
      std::int64_t offset = 0;
      for (const BucketEntry& entry : entries_) {
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
    for (const BucketEntry& entry : entries_) {
      KeepGradient(entry.tensor, own);
      own = Further(own, tensors_[entry.tensor].shard.length());
    }
    if (reduction.interleaved != kNone) builder_.Release(reduction.interleaved);
  }

  const BucketReduction& ReductionOf() {
    std::vector<int> content;
    std::int64_t part = 0, elements = 0;
    for (const BucketEntry& entry : entries_) {
      content.push_back(entry.tensor);
      part += tensors_[entry.tensor].shard.length();
      elements += Elements(entry.tensor);
    }
    BucketReduction& reduction = reductions_of_[content];
    if (reduction.divide != kNone) return reduction;
    const BucketEntry& first = entries_.front();
    const Bytes size = BytesOf(part * ranks_, reduced_in_);
    // One tensor that divides is reduced where it lies.
    const bool in_place =
        entries_.size() == 1 && elements == part * ranks_ && first.place.type == reduced_in_;
    if (!in_place) {
      reduction.interleaved = builder_.AddBuffer(
          "interleaved gradients " + std::to_string(reductions_of_.size() - 1), size,
          Category::kCommunication, BytesOf(part * ranks_ - elements, reduced_in_));
      reduction.interleave =
          MemoryKernel("interleave_gradients", BytesOf(elements, first.place.type), size);
    }
    reduction.divide = MemoryKernel("divide", size, size);
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
    builder_.Run(reduce_stream_, MemoryKernel("divide", size, size), {use});
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
    const bool first = step_.micro_batch() == 0;
    const program::Effect move =
        Move(At(flat_gradients_, tensor.offset, kept_in_), source, tensor.own);
    builder_.With(first ? move : Added(move));
    builder_.Run(reduce_stream_, first ? tensor.keep : tensor.add,
                 {Reads(source.buffer, source.offset, BytesOf(tensor.own, source.type)),
                  Writes(flat_gradients_, BytesOf(tensor.offset, kept_in_),
                         BytesOf(tensor.shard.length(), kept_in_))});
  }

  // One collective each, all asked for at once; then the host waits.
  void GatherPersistent() {
    if (persistent_.empty()) return;
    const StreamId compute = step_.compute();
    for (const int tensor : persistent_) builder_.Allocate(compute, tensors_[tensor].full);
    builder_.WaitForStream(nccl_stream_, compute, launched_);
    for (const int tensor : persistent_) RunGather(tensors_[tensor], nccl_stream_);
    builder_.WaitForStream(compute, nccl_stream_, tensors_[persistent_.back()].gathered);
    builder_.HostWait(tensors_[persistent_.back()].gathered);
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
  Index communicator_ = kNone;
  Index launched_ = kNone, fetched_ = kNone, gradient_made_ = kNone, reduced_ = kNone;
  Index updated_ = kNone;
  Backpressure fetches_, reductions_;

  std::vector<PartitionedTensor> tensors_;  // as the model's
  std::vector<int> persistent_;
  std::int64_t part_elements_ = 0;  // of this rank
  Index partition_ = kNone, flat_gradients_ = kNone, bucket_ = kNone;
  std::vector<std::array<std::vector<ModuleRun>, 3>> runs_;  // by work, then pass
  std::optional<ParameterCoordinator> coordinator_;
  std::map<Parameters, CoalescedGather> gathers_;
  std::map<int, CoalescedGather*> in_flight_;  // null: gathered alone

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
