#include <algorithm>

#include "src/lowering/partitioned_state.h"
#include "src/lowering/step_parts.h"

namespace stepcast::lowering {

using program::Category;
using program::kNone;

PartitionedGradients::PartitionedGradients(TrainingStep& step, Operations& operations,
                                           HostOffload& offload, const ProcessGroups& groups,
                                           const BlockLayout& parts)
    : PartitionedState(step, operations, offload, groups, parts),
      reduced_in_(step.plan().training.reduce_dtype),
      kept_in_(step.plan().training.gradient_dtype),
      gradients_(step, operations, step.plan().training.parameter_dtype) {}

std::int64_t PartitionedGradients::RanksOfNode() const {
  return std::min<std::int64_t>(step_.scenario().cluster->gpus_per_node(), parts_.ranks());
}

// DeepSpeed uses this exchange only between several full nodes.
bool PartitionedGradients::ExchangesQuantised() const {
  return settings_.quantized_gradients && parts_.ranks() > RanksOfNode() &&
         parts_.ranks() % RanksOfNode() == 0;
}

// Only matrices whose elements divide evenly.
bool PartitionedGradients::CanBeExchanged(int tensor) const {
  return step_.model().tensors[tensor].shape.size() > 1 &&
         Elements(tensor) % (2 * parts_.ranks()) == 0;
}

void PartitionedGradients::SetStreams(StreamId reduce_stream, Index communicator) {
  reduce_stream_ = reduce_stream;
  communicator_ = communicator;
  if (!ExchangesQuantised()) return;
  const int of_node = static_cast<int>(RanksOfNode());
  node_communicator_ = builder_.AddCommunicator("node", groups_.shard.Runs(of_node));
  rail_communicator_ = builder_.AddCommunicator("rail", groups_.shard.AcrossRuns(of_node));
}

void PartitionedGradients::AddEvents() {
  made_ = builder_.AddEvent("gradient made");
  reduced_ = builder_.AddEvent("gradients reduced");
  reductions_.AddEvents(builder_, "reduced");
}

void PartitionedGradients::AddPartition() {
  const StreamId compute = step_.compute();
  PartitionedState::AddPartition("gradient partition", kept_in_, Category::kGradient,
                                 offload_.optimizer());
  bucket_ = Add("gradient bucket", settings_.reduce_bucket_size, reduced_in_, Category::kGradient);
  operations_.Allocate(compute, bucket_);
  if (!offload_.optimizer()) return;
  std::int64_t largest = 0;
  for (const BlockLayout::Block& block : parts_.blocks()) largest = std::max(largest, block.length);
  transit_ = Add("gradient from the host", largest, kept_in_, Category::kGradient);
  widened_ = Add("FP32 gradient", largest, DataType::kFp32, Category::kGradient);
  operations_.Allocate(compute, transit_);
  operations_.Allocate(compute, widened_);
}

void PartitionedGradients::Ready(int tensor) {
  gradients_.Complete(tensor);
  const std::int64_t elements = Elements(tensor);
  if (bucket_elements_ > 0 && bucket_elements_ + elements > settings_.reduce_bucket_size) Reduce();
  if (overlap_) builder_.WaitForStream(reduce_stream_, step_.compute(), made_);
  Entry entry{.tensor = tensor, .place = gradients_.range(tensor), .alone = true};
  if (bucket_elements_ + elements <= settings_.reduce_bucket_size) {
    entry = {.tensor = tensor, .place = bucket_.Part(bucket_elements_, elements)};
    operations_.Copy(reduce_stream_, "copy_to_bucket", entry.place, gradients_.range(tensor),
                     1.0 / static_cast<double>(parts_.ranks()));
    Free(tensor);
  }
  entries_.push_back(entry);
  bucket_elements_ += elements;
}

void PartitionedGradients::Finish() {
  if (!entries_.empty()) Reduce();
  builder_.Record(reduce_stream_, reduced_);
  builder_.HostWait(reduced_);
}

void PartitionedGradients::AwaitCompute() {
  builder_.Record(step_.compute(), reduced_);
  builder_.HostWait(reduced_);
}

void PartitionedGradients::Free(int tensor) {
  if (overlap_) builder_.RecordStream(reduce_stream_, gradients_.buffer(tensor));
  gradients_.Release(tensor);
}

// Reduces what is in the bucket.
void PartitionedGradients::Reduce() {
  reductions_.Wait(builder_);
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.tensor < b.tensor; });
  const bool in_bucket = bucket_elements_ <= settings_.reduce_bucket_size;
  if (!settings_.reduce_scatter && in_bucket) {
    AllReduceBucket();
  } else if (ExchangesQuantised()) {
    // Copies tensor by tensor.
    for (const Entry& entry : entries_) {
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
    // The host waits for the copies of FP32 values to it.
    builder_.Record(reduce_stream_, reduced_);
    builder_.HostWait(reduced_);
  }
  for (const Entry& entry : entries_) {
    if (entry.alone) Free(entry.tensor);
  }
  entries_.clear();
  bucket_elements_ = 0;
  reductions_.Record(builder_, reduce_stream_);
}

void PartitionedGradients::ReduceScatter(std::span<const Entry> entries) {
  std::int64_t part = 0, elements = 0;
  for (const Entry& entry : entries) {
    part += PartLength(entry.tensor);
    elements += Elements(entry.tensor);
  }
  // A single tensor that divides evenly is reduced in place.
  const Entry& first = entries.front();
  const bool in_place =
      entries.size() == 1 && elements == part * parts_.ranks() && first.place.type() == reduced_in_;
  const Range whole = in_place ? first.place : Interleave(entries, part, elements);
  operations_.Updates(whole);
  operations_.Run(reduce_stream_, "divide");
  program::Elements own = whole.place;
  if (communicator_ != kNone) {
    const Range share = whole.Part(groups_.shard_index() * part, part);
    operations_.ReduceScatter(reduce_stream_, communicator_, share, whole, in_place && first.alone);
    own = share.place;
  }
  for (const Entry& entry : entries) {
    Keep(entry.tensor, own);
    own = Further(own, PartLength(entry.tensor));
  }
  if (!in_place) operations_.Release(whole);
}

Range PartitionedGradients::Interleave(std::span<const Entry> entries, std::int64_t part,
                                       std::int64_t elements) {
  std::vector<int> content;
  for (const Entry& entry : entries) content.push_back(entry.tensor);
  Range& whole = interleaved_[content];
  if (!whole) {
    whole = operations_.AddRange(
        {.first = builder_.AddNumbered("interleaved gradients ", interleaved_.size() - 1)},
        part * parts_.ranks(), reduced_in_, Category::kCommunication, elements);
  }
  operations_.Allocate(reduce_stream_, whole);
  operations_.Writes(whole);
  std::int64_t offset = 0;
  for (const Entry& entry : entries) {
    operations_.Reads(entry.place);
    const std::int64_t length = PartLength(entry.tensor);
    // Gradients copied into the bucket were already divided there.
    const double scale = entry.alone ? 1.0 / static_cast<double>(parts_.ranks()) : 1.0;
    builder_.With(
        InBlocks(Scaled(scale, Move(whole.At(offset), entry.place.place, entry.place.elements)),
                 length, part, length));
    offset += length;
  }
  operations_.Run(reduce_stream_, "interleave_gradients");
  return whole;
}

// reduce_scatter: false. Reduces the bucket as it was filled.
void PartitionedGradients::AllReduceBucket() {
  const Range whole = bucket_.Part(0, bucket_elements_);
  operations_.Updates(whole);
  operations_.Run(reduce_stream_, "divide");
  if (communicator_ != kNone) operations_.AllReduce(reduce_stream_, communicator_, whole);
  for (const Entry& entry : entries_) {
    // A rank beyond the tensor's last element has nothing to copy.
    Keep(entry.tensor, entry.place.At(std::min(Own(entry.tensor).first, Elements(entry.tensor))));
  }
}

// Four bits per value plus group scales go all-to-all inside the node. The result is summed and
// sent, one part for each GPU of a node, all-to-all across nodes.
void PartitionedGradients::Exchange(const Entry& entry) {
  const QuantisedExchange& exchange = ExchangeOf(entry.tensor);
  const Range* const ranges[] = {&exchange.packed, &exchange.exchanged, &exchange.summed,
                                 &exchange.result};
  for (const Range* range : ranges) operations_.Allocate(reduce_stream_, *range);
  const auto send = [&](const program::Collective& collective, const Range& from, const Range& to) {
    builder_.Communicate(reduce_stream_, builder_.AddCollective(collective),
                         {Reads(from), Writes(to)});
  };
  operations_.Reads(entry.place);
  operations_.Writes(exchange.packed);
  operations_.Traffic(BytesOf(entry.place.elements, reduced_in_), exchange.packed.size());
  operations_.Run(reduce_stream_, "quantise");
  if (node_communicator_ == kNone) {  // a rank that has the node for itself sends to itself
    operations_.Copy(reduce_stream_, "copy_to_itself", exchange.exchanged, exchange.packed);
  } else {
    send(exchange.inside, exchange.packed, exchange.exchanged);
    send(exchange.inside_scales, exchange.packed, exchange.exchanged);
  }
  operations_.Reads(exchange.exchanged);
  operations_.Writes(exchange.summed);
  operations_.Run(reduce_stream_, "quantised_reduction");
  send(exchange.across, exchange.summed, exchange.exchanged);
  send(exchange.across_scales, exchange.summed, exchange.exchanged);
  operations_.Reads(exchange.exchanged);
  operations_.Writes(exchange.result);
  operations_.Traffic(exchange.summed.size(), exchange.result.size());
  operations_.Run(reduce_stream_, "dequantise");
  operations_.Writes(exchange.result);
  operations_.Traffic(exchange.result.size(),
                      BytesOf(Elements(entry.tensor) / parts_.ranks(), reduced_in_));
  operations_.Run(reduce_stream_, "sum_nodes");
  Keep(entry.tensor, exchange.result.place);
  for (const Range* range : ranges) operations_.Release(*range);
}

const PartitionedGradients::QuantisedExchange& PartitionedGradients::ExchangeOf(int index) {
  QuantisedExchange& exchange = exchanges_[index];
  if (exchange.packed) return exchange;
  const model::Tensor& tensor = step_.model().tensors[index];
  const std::int64_t node = RanksOfNode();
  const std::int64_t groups = std::max({tensor.shape[0], tensor.shape[1], parts_.ranks()});
  const std::int64_t half = tensor.elements / 2, half_part = half / node;
  const std::int64_t scales = 4 * groups, scales_part = 4 * (groups / node);
  const Index name = builder_.AddText(tensor.name);
  const auto add = [&](const char* what, std::int64_t elements, DataType type) {
    return operations_.AddRange(builder_.Named(name, what), elements, type,
                                Category::kCommunication);
  };
  exchange.packed = add(" (4 bits)", half + scales, DataType::kFp8);
  exchange.exchanged = add(" (4 bits, exchanged)", half + scales, DataType::kFp8);
  exchange.summed = add(" (4 bits, summed)", half_part + scales_part, DataType::kFp8);
  exchange.result = add(" (summed)", tensor.elements / node, reduced_in_);
  const auto all_to_all = [](Index communicator, std::int64_t bytes, DataType type) {
    return program::Collective{.kind = CollectiveKind::kAllToAll,
                               .communicator = communicator,
                               .bytes = Bytes(bytes),
                               .data_type = type};
  };
  exchange.inside = all_to_all(node_communicator_, half, DataType::kFp8);
  exchange.inside_scales = all_to_all(node_communicator_, scales, DataType::kFp32);
  exchange.across = all_to_all(rail_communicator_, half_part, DataType::kFp8);
  exchange.across_scales = all_to_all(rail_communicator_, scales_part, DataType::kFp32);
  return exchange;
}

// Copies or adds to the rank's flat gradients.
void PartitionedGradients::Keep(int index, const program::Elements& source) {
  if (PartLength(index) == 0) return;
  const Range reduced{source, Own(index).elements};
  if (offload_.optimizer()) {
    KeepOnHost(index, reduced);
    return;
  }
  const bool first = step_.micro_batch() == 0;
  const Range part = PartOf(index);
  const program::Effect move = Move(part.place, source, reduced.elements);
  const Bytes full = BytesOf(part.elements, source.type);
  operations_.Reads(reduced);
  operations_.Writes(part);
  operations_.Traffic(first ? full : full + part.size(), part.size());
  builder_.With(first ? move : Added(move));
  operations_.Run(reduce_stream_, first ? "copy_gradient_partition" : "accumulate_gradient");
}

// Gradients are accumulated on the device: those of earlier micro-batches are copied back first,
// even the first ones once they have been stored. After the last micro-batch, FP32 values go to the
// host.
void PartitionedGradients::KeepOnHost(int index, const Range& reduced) {
  const std::int64_t part = PartLength(index);
  const Range transit = transit_.Part(0, part);
  if (step_.micro_batch() == 0) {
    builder_.ToHost(reduce_stream_, transit.size(), {Reads(reduced)});
    builder_.ToDevice(reduce_stream_, transit.size(), {Writes(transit)});
  } else {
    builder_.ToDevice(reduce_stream_, transit.size(), {Writes(transit)});
    operations_.Reads(reduced);
    operations_.Writes(transit);
    operations_.Traffic(BytesOf(part, reduced_in_) + transit.size(), transit.size());
    operations_.Run(reduce_stream_, "accumulate_gradient");
    builder_.ToHost(reduce_stream_, transit.size(), {Reads(transit)});
  }
  if (!step_.last_micro_batch()) return;
  const Range wide = widened_.Part(0, part);
  // To FP64, and its norm.
  const Bytes twice = BytesOf(part, DataType::kFp32) * 2;
  operations_.Reads(transit);
  operations_.Traffic(transit.size() + twice, twice);
  operations_.Run(reduce_stream_, "norm");
  operations_.Copy(reduce_stream_, "cast_gradients", wide, transit);
  builder_.ToHost(reduce_stream_, wide.size(), {Reads(wide)});
  offload_.GradientsOnward(reduce_stream_, part);
}

}  // namespace stepcast::lowering
