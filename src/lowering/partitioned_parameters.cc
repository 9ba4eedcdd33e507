#include <algorithm>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/lowering/model_state.h"
#include "src/lowering/partitioned_state.h"
#include "src/lowering/step_parts.h"

namespace stepcast::lowering {
ParameterCoordinator::ParameterCoordinator(std::vector<Parameters> visits,
                                           std::vector<std::int64_t> elements,
                                           std::vector<bool> persistent,
                                           const CoordinatorOptions& options)
    : visits_(std::move(visits)),
      elements_(std::move(elements)),
      persistent_(std::move(persistent)),
      options_(options),
      status_(elements_.size(), Status::kAway) {
  for (std::size_t p = 0; p < status_.size(); ++p) {
    if (persistent_[p]) status_[p] = Status::kHere;
  }
}

void ParameterCoordinator::BeginMicroBatch() {
  queue_.clear();
  for (std::size_t v = 0; v < visits_.size(); ++v) {
    for (const int p : visits_[v]) queue_.push_back({p, static_cast<std::int64_t>(v)});
  }
  fetched_for_.assign(elements_.size(), -1);
  live_ = 0;
  next_ = 0;
}

void ParameterCoordinator::Ask(int parameter) {
  status_[parameter] = Status::kInFlight;
  live_ += elements_[parameter];
}

void ParameterCoordinator::Free(int parameter) {
  status_[parameter] = Status::kAway;
  live_ -= elements_[parameter];
}

ParameterCoordinator::Fetched ParameterCoordinator::Fetch() {
  STEPCAST_CHECK(next_ < static_cast<std::int64_t>(visits_.size()), "an unknown visit");
  const Parameters& needed = visits_[next_];
  Fetched fetched;
  std::size_t unseen = 0;
  for (const int p : needed) {
    if (status_[p] == Status::kAway) {
      Ask(p);
      fetched.gather.push_back(p);
    }
    if (status_[p] == Status::kInFlight) {
      status_[p] = Status::kHere;
      fetched.wait.push_back(p);
    }
    if (fetched_for_[p] < next_) ++unseen;
  }
  // The first entries of the queue are those that this visit needs and no earlier prefetch has
  // seen.
  for (; unseen > 0; --unseen) {
    STEPCAST_CHECK(!queue_.empty(), "every use of a parameter must be in the prefetch queue");
    fetched_for_[queue_.front().parameter] = queue_.front().visit;
    queue_.pop_front();
  }
  const std::int64_t most = std::min(options_.max_live - live_, options_.prefetch);
  std::int64_t asked = 0;
  while (!queue_.empty() && asked < most) {
    const Entry entry = queue_.front();
    queue_.pop_front();
    fetched_for_[entry.parameter] = std::max(fetched_for_[entry.parameter], entry.visit);
    if (status_[entry.parameter] != Status::kAway) continue;
    Ask(entry.parameter);
    fetched.prefetch.push_back(entry.parameter);
    asked += elements_[entry.parameter];
  }
  std::sort(fetched.prefetch.begin(), fetched.prefetch.end());
  ++next_;
  return fetched;
}

ParameterCoordinator::Parameters ParameterCoordinator::Release() {
  Parameters released;
  for (const int p : visits_[next_ - 1]) {
    // Prefetch has skipped a later use because the parameter was still gathered.
    if (!persistent_[p] && fetched_for_[p] <= next_) released.push_back(p);
  }
  std::int64_t distance = 0;
  for (auto visit = static_cast<std::size_t>(next_);
       visit < visits_.size() && distance < options_.max_reuse && !released.empty(); ++visit) {
    for (const int p : visits_[visit]) {
      released.erase(std::remove(released.begin(), released.end(), p), released.end());
      distance += elements_[p];
    }
  }
  std::erase_if(released, [this](int p) { return status_[p] != Status::kHere; });
  for (const int p : released) Free(p);
  return released;
}

ParameterCoordinator::Parameters ParameterCoordinator::ReleaseRest() {
  Parameters released;
  for (std::size_t p = 0; p < status_.size(); ++p) {
    STEPCAST_CHECK(status_[p] != Status::kInFlight,
                   "when the remaining parameters are released, no gather may be in flight");
    if (status_[p] != Status::kHere || persistent_[p]) continue;
    released.push_back(static_cast<int>(p));
    Free(static_cast<int>(p));
  }
  return released;
}

using program::Category;
using program::kNone;

PartitionedParameters::PartitionedParameters(TrainingStep& step, Operations& operations,
                                             HostOffload& offload, const ProcessGroups& groups,
                                             const BlockLayout& parts)
    : PartitionedState(step, operations, offload, groups, parts),
      type_(step.plan().training.parameter_dtype) {}

void PartitionedState::AddPartition(const char* name, DataType type, Category category,
                                    bool on_host) {
  std::int64_t exact = 0;  // shares of the tensors' elements
  for (const BlockLayout::Block& block : parts_.blocks()) exact += block.elements / parts_.ranks();
  partition_ = operations_.AddRange({.first = builder_.AddText(name)}, parts_.shard(), type,
                                    category, exact);
  if (!on_host) operations_.Allocate(step_.compute(), partition_);
}

// If all ranks share one copy, it is the primary one.
bool PartitionedParameters::HasSecondary() const {
  return settings_.hpz_partition_size > 1 && settings_.hpz_partition_size < parts_.ranks();
}

std::int64_t PartitionedParameters::OwnLength(int tensor, const Gather& gather) const {
  const std::int64_t length = LengthIn(gather, tensor);
  return std::clamp<std::int64_t>(Elements(tensor) - gather.index * length, 0, length);
}

void PartitionedParameters::SetStreams(StreamId gather_stream, StreamId nccl_stream,
                                       Index communicator) {
  gather_stream_ = gather_stream;
  nccl_stream_ = nccl_stream;
  communicator_ = communicator;
  if (!HasSecondary()) return;
  sharers_ = groups_.shard.Runs(static_cast<int>(settings_.hpz_partition_size));
  secondary_communicator_ = builder_.AddCommunicator("hpz", sharers_);
  kept_ = builder_.AddEvent("secondary part kept");
}

void PartitionedParameters::AddEvents() {
  launched_ = builder_.AddEvent("gather asked for");
  fetched_ = builder_.AddEvent("fetched");
  gathered_ = builder_.AddEvent("small parameters gathered");
  fetches_.AddEvents(builder_, "fetched");
}

void PartitionedParameters::AddPartition() {
  PartitionedState::AddPartition("parameter partition", type_, Category::kParameter,
                                 offload_.parameters());
}

void PartitionedParameters::AddTensors() {
  for (const BlockLayout::Block& block : parts_.blocks()) {
    const int index = block.tensor;
    const Piece own = Own(index);
    const Index name = builder_.AddText(step_.model().tensors[index].name);
    const std::int64_t elements = block.elements, whole = block.length * parts_.ranks();
    AddParameterState(step_, partition_.At(own.offset), step_.first_element(index) + own.first,
                      own.elements);
    Tensor& tensor = tensors_.emplace_back();
    tensor.persistent = elements <= settings_.param_persistence_threshold;
    if (ReadInPlace()) continue;
    tensor.full = operations_.AddRange(
        {.first = name}, whole, type_,
        tensor.persistent ? Category::kParameter : Category::kCommunication, elements);
    if (HasSecondary()) {
      tensor.secondary =
          operations_.AddRange(builder_.Named(name, " (secondary)"),
                               whole / settings_.hpz_partition_size, type_, Category::kParameter);
    }
    if (!tensor.persistent || elements == 0) continue;
    persistent_.push_back(index);
    operations_.Allocate(step_.compute(), tensor.full);
    AddParameterState(step_, tensor.full.place, step_.first_element(index), elements);
  }
}

void PartitionedParameters::SetVisits(std::vector<Parameters> visits) {
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

void PartitionedParameters::Fetch() {
  const ParameterCoordinator::Fetched fetched = coordinator_->Fetch();
  if (ReadInPlace()) return;
  StartGather(fetched.gather);
  for (const int tensor : fetched.wait) WaitFor(tensor);
  if (overlap_ && !fetched.wait.empty()) {
    builder_.WaitForStream(step_.compute(), gather_stream_, fetched_);
  }
  StartGather(fetched.prefetch);
}

// Requests parameters: those with a secondary copy separately from the others.
void PartitionedParameters::StartGather(const Parameters& asked) {
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

// The collective runs on NCCL's own stream. For a single rank, each parameter is copied to the
// place where it is read.
void PartitionedParameters::StartGather(Gather& gather) {
  const bool alone = gather.parameters.size() == 1;
  const bool packed = static_cast<bool>(gather.packed);
  for (const int t : gather.parameters) in_flight_[t] = &gather;
  gather.waiting = static_cast<int>(gather.parameters.size());
  gather.complete = false;
  if (parts_.ranks() == 1) {
    for (const int t : gather.parameters) Stage(gather_stream_, tensors_[t].full);
    builder_.Record(gather_stream_, gather.gathered);
    return;
  }
  if (gather.staged) Stage(gather_stream_, gather.staged);
  const auto use_sources = [&] {
    for (const int t : gather.parameters) {
      builder_.Use(Reads(gather.staged ? gather.staged : SourceOf(t, gather)));
    }
  };
  const Bytes part = BytesOf(gather.part, type_);
  if (packed) {
    for (const Range& range : {gather.packed, gather.flat_packed, gather.scales}) {
      operations_.Allocate(gather_stream_, range);
    }
    use_sources();
    operations_.Writes(gather.packed);
    // Several shards are first copied into one buffer.
    const Bytes together = alone ? Bytes() : part;
    operations_.Traffic(part + together, gather.packed.size() + together);
    operations_.Run(gather_stream_, "quantise");
    builder_.WaitForStream(nccl_stream_, gather_stream_, launched_);
    operations_.AllGather(nccl_stream_, gather.communicator, gather.flat_packed, gather.packed);
    operations_.AllGather(nccl_stream_, gather.communicator, gather.scales, gather.packed);
  } else if (alone) {
    const int t = gather.parameters.front();
    operations_.Allocate(gather_stream_, tensors_[t].full);
    builder_.WaitForStream(nccl_stream_, gather_stream_, launched_);
    const Range source = gather.staged ? gather.staged : SourceOf(t, gather);
    operations_.AllGather(nccl_stream_, gather.communicator, tensors_[t].full, source);
  } else {
    operations_.Allocate(gather_stream_, gather.flat);
    const Range own = gather.flat.Part(gather.index * gather.part, gather.part);
    std::int64_t offset = 0;
    use_sources();
    operations_.Writes(own);
    operations_.Traffic(part, part);
    for (const int t : gather.parameters) {
      const std::int64_t length = OwnLength(t, gather);
      operations_.Moves(own.Part(offset, length), SourceOf(t, gather));
      offset += LengthIn(gather, t);
    }
    operations_.Run(gather_stream_, "copy_to_gathered");
    builder_.WaitForStream(nccl_stream_, gather_stream_, launched_);
    operations_.AllGather(nccl_stream_, gather.communicator, gather.flat, own);
  }
  builder_.Record(nccl_stream_, gather.gathered);
  if (gather.staged && (packed || !alone)) operations_.Release(gather.staged);
}

// Copies offloaded parts to the device.
void PartitionedParameters::Stage(StreamId stream, const Range& staged) {
  operations_.Allocate(stream, staged);
  offload_.ParametersInto(stream, staged.size());
  builder_.ToDevice(stream, staged.size(), {Writes(staged)});
}

PartitionedParameters::Gather& PartitionedParameters::GatherOf(const Parameters& parameters,
                                                               bool secondary) {
  Gather& gather = gathers_[{parameters, secondary}];
  if (gather.gathered != kNone) return gather;
  gather.parameters = parameters;
  gather.secondary = secondary;
  gather.communicator = secondary ? secondary_communicator_ : communicator_;
  const parallel::GroupLayout& among = secondary ? sharers_ : groups_.shard;
  gather.ranks = among.size();
  gather.index = among.Index(groups_.rank);
  for (const int t : parameters) gather.part += LengthIn(gather, t);
  const Index name = builder_.AddNumbered("gathered parameters ", gathers_.size() - 1);
  gather.gathered = builder_.AddEvent({.first = name});
  if (parts_.ranks() == 1) return gather;
  const auto add = [&](const char* what, std::int64_t elements, DataType type) {
    return operations_.AddRange(builder_.Named(name, what), elements, type,
                                Category::kCommunication);
  };
  if (offload_.parameters() && !secondary) {
    gather.staged = add(" from the host", gather.part, type_);
  }
  if (parameters.size() > 1) {
    gather.flat = operations_.AddRange({.first = name}, gather.part * gather.ranks, type_,
                                       Category::kCommunication);
  }
  if (!settings_.quantized_weights) return gather;
  // A scale for every group of at most 8000 values (CUDAQuantizer.target_group_size).
  const std::int64_t scales = (gather.part + 7999) / 8000;
  gather.packed = add(" (8 bits, own)", gather.part + 4 * scales, DataType::kFp8);
  gather.flat_packed = add(" (8 bits)", gather.ranks * gather.part, DataType::kFp8);
  gather.scales = add(" (scales)", gather.ranks * scales, DataType::kFp32);
  return gather;
}

// Removes a parameter from the list of those in flight.
void PartitionedParameters::WaitFor(int tensor) {
  const auto found = in_flight_.find(tensor);
  if (found == in_flight_.end()) return;  // empty
  fetches_.Wait(builder_);
  Gather& gather = *found->second;
  in_flight_.erase(found);
  if (!gather.complete) Complete(gather);
  if (--gather.waiting == 0 && gather.flat) operations_.Release(gather.flat);
  fetches_.Record(builder_, gather_stream_);
}

// The first wait for a parameter unpacks all parameters of the collective. If they only came from
// the host, the host waits.
void PartitionedParameters::Complete(Gather& gather) {
  gather.complete = true;
  if (parts_.ranks() == 1) {
    builder_.HostWait(gather.gathered);
    return;
  }
  const bool alone = gather.parameters.size() == 1;
  builder_.Wait(gather_stream_, gather.gathered);
  if (gather.packed) {
    const Range& target = alone ? tensors_[gather.parameters.front()].full : gather.flat;
    operations_.Allocate(gather_stream_, target);
    operations_.Reads(gather.flat_packed);
    operations_.Reads(gather.scales);
    operations_.Writes(target);
    operations_.Run(gather_stream_, "dequantise");
    for (const Range& range : {gather.packed, gather.flat_packed, gather.scales}) {
      operations_.Release(range);
    }
  } else if (alone && gather.staged) {
    operations_.Release(gather.staged);
  }
  if (alone) return;
  std::int64_t offset = 0;
  for (const int t : gather.parameters) {
    const Range& full = tensors_[t].full;
    const Bytes size = BytesOf(Elements(t), type_);
    const std::int64_t length = LengthIn(gather, t);
    operations_.Allocate(gather_stream_, full);
    operations_.Reads(gather.flat);
    operations_.Writes(full);
    operations_.Traffic(size, size);
    builder_.With(InBlocks(Move(full.place, gather.flat.At(offset), Elements(t)), length, length,
                           gather.part));
    operations_.Run(gather_stream_, "copy_from_gathered");
    offset += length;
  }
}

// Frees parameters that the device may still be reading. A secondary copy is made first, every
// time, and the host waits for it (_partition_param_sec).
void PartitionedParameters::Free(int index) {
  Tensor& tensor = tensors_[index];
  if (ReadInPlace() || Elements(index) == 0) return;
  if (tensor.secondary && !tensor.persistent) {
    const StreamId compute = step_.compute();
    if (!tensor.has_secondary) operations_.Allocate(compute, tensor.secondary);
    tensor.has_secondary = true;
    const std::int64_t length = tensor.secondary.elements;
    const std::int64_t first = sharers_.Index(groups_.rank) * length;
    builder_.Use(Reads(tensor.full));
    operations_.Writes(tensor.secondary);
    operations_.Traffic(tensor.secondary.size(), tensor.secondary.size());
    builder_.With(Move(tensor.secondary.place, tensor.full.At(first),
                       std::clamp<std::int64_t>(Elements(index) - first, 0, length)));
    operations_.Run(compute, "copy_secondary");
    builder_.Record(compute, kept_);
    builder_.HostWait(kept_);
  }
  const bool still_read = overlap_ && !tensor.persistent;
  if (still_read) builder_.RecordStream(step_.compute(), tensor.full.buffer());
  operations_.Release(tensor.full);
  if (still_read) StayBehind(tensor.full.elements);
}

// Memory that the device still reads cannot be reused. A real allocator without free memory makes
// the host wait for the device. That moment is not modeled. Instead the host waits as soon as more
// than max_live_parameters elements are freed and still read, which leaves it far enough ahead to
// hide gathers.
void PartitionedParameters::StayBehind(std::int64_t elements) {
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

void PartitionedParameters::Renew() {
  for (Tensor& tensor : tensors_) {
    if (std::exchange(tensor.has_secondary, false)) operations_.Release(tensor.secondary);
  }
  GatherPersistent();
}

// One collective each, all launched at once; then the host waits.
void PartitionedParameters::GatherPersistent() {
  if (persistent_.empty()) return;
  const StreamId compute = step_.compute();
  if (parts_.ranks() == 1) {
    for (const int tensor : persistent_) Stage(compute, tensors_[tensor].full);
    builder_.Record(compute, gathered_);
    builder_.HostWait(gathered_);
    return;
  }
  Range staged;
  if (offload_.parameters()) {
    std::int64_t elements = 0;
    for (const int tensor : persistent_) elements += PartLength(tensor);
    staged = Add("persistent parameters from the host", elements, type_, Category::kCommunication);
    Stage(compute, staged);
  }
  for (const int tensor : persistent_) operations_.Allocate(compute, tensors_[tensor].full);
  builder_.WaitForStream(nccl_stream_, compute, launched_);
  for (const int tensor : persistent_) {
    operations_.AllGather(nccl_stream_, communicator_, tensors_[tensor].full,
                          staged ? staged : PartOf(tensor));
  }
  builder_.WaitForStream(compute, nccl_stream_, gathered_);
  builder_.HostWait(gathered_);
  if (staged) operations_.Release(staged);
}

}  // namespace stepcast::lowering
