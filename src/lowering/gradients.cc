#include "src/lowering/gradients.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "src/base/kernel.h"
#include "src/lowering/step_parts.h"
#include "src/model/layer.h"
#include "src/model/model.h"
#include "src/parallel/axis.h"
#include "src/plan/plan.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {
std::vector<int> GradientReadyOrder(const model::Model& model,
                                    std::span<const model::LayerWork> works,
                                    std::span<const int> work_of_layer) {
  std::vector<int> contributions(model.tensors.size(), 0);
  for (const model::Layer& layer : model.layers) {
    for (const int tensor : layer.tensors) ++contributions[tensor];
  }
  std::vector<int> order;
  order.reserve(model.tensors.size());
  for (std::size_t index = model.layers.size(); index-- > 0;) {
    const model::Layer& layer = model.layers[index];
    for (const model::Operation& op :
         works[static_cast<std::size_t>(work_of_layer[index])].backward) {
      const auto first = order.size();
      for (const int position : op.gradients) {
        const int tensor = layer.tensors[position];
        if (--contributions[tensor] == 0) order.push_back(tensor);
      }
      if (order.size() - first <= 1) continue;
      std::sort(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(), std::greater<>());
    }
  }
  return order;
}

std::vector<Bucket> AssignBuckets(const model::Model& model, std::span<const int> order,
                                  std::int64_t bytes_per_element, Bytes first_limit, Bytes limit) {
  std::vector<Bucket> buckets;
  for (std::size_t first = 0; first < order.size();) {
    const Bytes own_limit = buckets.empty() ? first_limit : limit;
    std::int64_t elements = 0;
    std::size_t last = first;
    do {
      elements += model.tensors[order[last++]].elements;
    } while (last < order.size() && Bytes(elements * bytes_per_element) < own_limit);
    buckets.push_back({.tensors = order.subspan(first, last - first), .elements = elements});
    first = last;
  }
  return buckets;
}

using program::kNone;

void GradientBuckets::SetChannels(std::vector<Channel> channels) {
  channels_ = std::move(channels);
  places_.resize(step_.model().tensors.size());
  buckets_.reserve(64);
}

const GradientBucket& GradientBuckets::Add(std::span<const int> tensors, FlatLayout layout,
                                           const char* what, DataType type, std::int64_t index,
                                           std::size_t channel) {
  const Index name = builder_.AddNumbered("bucket ", buckets_.size());
  const bool packed = layout.tensors.empty();
  std::int64_t end = 0;  // of the tensors before
  auto piece = layout.tensors.begin();
  for (const int tensor : tensors) {
    const std::int64_t elements = step_.model().tensors[tensor].elements;
    if (!packed && elements > 0) end = piece++->offset;
    places_[tensor] = {.bucket = buckets_.size(), .offset = end};
    end += elements;
  }
  GradientBucket& bucket = buckets_.emplace_back();
  bucket.name = name;
  bucket.channel = channel;
  bucket.tensors = tensors;
  bucket.missing = static_cast<int>(tensors.size());
  const program::NameParts names =
      *what == '\0' ? program::NameParts{.first = name} : builder_.Named(name, what);
  bucket.gradients = operations_.AddRange(names, layout.padded(), type,
                                          program::Category::kGradient, layout.exact);
  bucket.own = layout.ranks > 1 ? bucket.gradients.Share(index, layout.shard) : bucket.gradients;
  bucket.layout = std::move(layout);
  if (channels_[channel].reduces()) {
    bucket.ready = builder_.AddEvent(builder_.Named(name, " ready"));
    bucket.reduced = builder_.AddEvent(builder_.Named(name, " reduced"));
  }
  return bucket;
}

bool GradientBuckets::Fill(int tensor) {
  GradientBucket& bucket = buckets_[places_[tensor].bucket];
  if (--bucket.missing > 0) return false;
  bucket.missing = static_cast<int>(bucket.tensors.size());
  return true;
}

void GradientBuckets::Zero() {
  Bytes written;
  for (const GradientBucket& bucket : buckets_) {
    operations_.Writes(bucket.gradients);
    written += bucket.gradients.size();
  }
  operations_.Traffic(Bytes(), written);
  operations_.Run(step_.compute(), "zero_gradients");
}

void GradientBuckets::Reduce(std::size_t index, bool average) {
  const GradientBucket& bucket = buckets_[index];
  const Channel& channel = channels_[bucket.channel];
  if (!channel.reduces()) return;
  builder_.Wait(channel.stream, bucket.ready);
  if (bucket.layout.ranks > 1) {
    operations_.ReduceScatter(channel.stream, channel.communicator, bucket.own, bucket.gradients,
                              average);
  } else if (channel.communicator != kNone) {
    operations_.AllReduce(channel.stream, channel.communicator, bucket.gradients, average);
  }
  if (channel.replica_communicator != kNone) {
    builder_.WaitForStream(channel.replica_stream, channel.stream, bucket.ready);
    operations_.AllReduce(channel.replica_stream, channel.replica_communicator, bucket.own,
                          average);
  }
  builder_.Record(channel.replica_stream, bucket.reduced);
}

using program::Category;

void DummyGradients::WritePrologue() {
  if (step_.model().is_layer_list() || !plan::HasTransformerEngine(step_.plan().training)) return;
  KeepOneForEachShape();
  AddOfOutputLayer();
}

void DummyGradients::KeepOneForEachShape() {
  const DataType type = step_.plan().training.parameter_dtype;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  const auto add = [&](const std::vector<model::Operation>& operations) {
    for (const model::Operation& operation : operations) {
      const Kernel& kernel = operation.kernel;
      const bool gives_weights = !operation.group && !operation.gradients.empty() &&
                                 kernel.kind == KernelKind::kGemm &&
                                 kernel.layout == ProductLayout::kWeightGradient;
      if (!gives_weights || !shapes.emplace(kernel.m, kernel.n).second) continue;
      const Index buffer = step_.builder().AddBuffer(
          "dummy gradient", BytesOf(kernel.m * kernel.n, type), Category::kWorkspace);
      step_.builder().Allocate(step_.compute(), buffer);
    }
  };
  const model::Model& model = step_.model();
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    if (model.layers[layer].kind != model::LayerKind::kBlock) continue;
    const model::LayerWork& work = step_.works()[step_.work_of(static_cast<int>(layer))];
    add(work.backward);
    add(work.backward_weight.operations);
  }
}

void DummyGradients::AddOfOutputLayer() {
  const model::Model& model = step_.model();
  of_output_layer_.resize(model.tensors.size());
  for (const model::Layer& layer : model.layers) {
    if (layer.kind != model::LayerKind::kHead) continue;
    for (const int tensor : layer.tensors) {
      if (model.tensors[tensor].shape.size() < 2) continue;
      of_output_layer_[tensor].dummy =
          operations_.AddRange(step_.builder().Named(model.tensors[tensor].name, ".dummy gradient"),
                               model.tensors[tensor].elements,
                               step_.plan().training.parameter_dtype, Category::kWorkspace);
    }
  }
}

LocalGradients::LocalGradients(TrainingStep& step, Operations& operations, DataType type)
    : step_(step), operations_(operations) {
  ProgramBuilder& builder = step.builder();
  const Index own = builder.AddText(".grad"), next = builder.AddText(".grad (next)");
  gradients_.reserve(step.model().tensors.size());
  for (const model::Tensor& tensor : step.model().tensors) {
    const Index name = builder.AddText(tensor.name);
    const auto add = [&](Index part) {
      return operations_.AddRange({.first = name, .second = part}, tensor.elements, type,
                                  Category::kGradient);
    };
    Gradient& gradient = gradients_.emplace_back();
    gradient.own = add(own);
    if (step.plan().training.gradient_accumulation > 1) gradient.further = add(next);
  }
}

void LocalGradients::Write(int tensor, const program::Elements& source) {
  Gradient& gradient = gradients_[tensor];
  if (!gradient.exists) {
    operations_.Allocate(step_.compute(), gradient.own);
    gradient.exists = true;
    gradient.micro_batch = step_.micro_batch();
  }
  if (gradient.micro_batch != step_.micro_batch() && !gradient.further_exists) {
    operations_.Allocate(step_.compute(), gradient.further);
    gradient.further_exists = true;
  }
  const Range& written = Written(tensor);
  step_.builder().Use(Writes(written));
  // Further contributions of one micro-batch to a tied tensor are added where they are made.
  const bool add = gradient.latest == step_.micro_batch();
  gradient.latest = step_.micro_batch();
  step_.WithGradient(tensor, 0, written.elements, written.place, source, add);
}

const Range& LocalGradients::Written(int tensor) const {
  const Gradient& gradient = gradients_[tensor];
  return gradient.further_exists ? gradient.further : gradient.own;
}

void LocalGradients::Complete(int tensor) {
  Gradient& gradient = gradients_[tensor];
  if (!gradient.further_exists) return;
  operations_.Accumulate(step_.compute(), "accumulate_gradient", gradient.own, gradient.further);
  operations_.Release(gradient.further);
  gradient.further_exists = false;
}

void LocalGradients::Release(int tensor) {
  operations_.Release(gradients_[tensor].own);
  gradients_[tensor].exists = false;
}

bool TiedGradients::Has(int tensor) const {
  const std::vector<int>& tied = step_.stage().tied_across();
  return std::find(tied.begin(), tied.end(), tensor) != tied.end();
}

bool TiedGradients::Counts(int tensor) const {
  // Ranks along the axis that hold the whole tensor count it once, at the first of them.
  const model::Tensor& own = step_.model().tensors[static_cast<std::size_t>(tensor)];
  const parallel::Axis axis = own.group == model::ParameterGroup::kExperts
                                  ? parallel::Axis::kExpertTensor
                                  : parallel::Axis::kTensor;
  const bool first_of_group =
      own.IsSplitAlong(axis) || step_.grids().At(step_.rank())[static_cast<std::size_t>(axis)] == 0;
  return first_of_group &&
         (!Has(tensor) || step_.stage().stage() == step_.stage().tied_stages().front());
}

void TiedGradients::WritePrologue() {
  if (plan::AddsUpPartsOfTokens(step_.plan())) {
    std::int64_t elements = 0;
    for (std::size_t t = 0; t < step_.model().tensors.size(); ++t) {
      if (!step_.model().tensors[t].sequence_parallel) continue;
      of_part_of_tokens_.push_back(static_cast<int>(t));
      elements += step_.model().tensors[t].elements;
    }
    if (elements > 0) {
      flat_ = builder_.AddBuffer("gradients of sequence-parallel parameters",
                                 BytesOf(elements, step_.plan().training.gradient_dtype),
                                 program::Category::kCommunication);
      tensor_communicator_ =
          builder_.AddCommunicator("tensor", step_.grids().Layout(parallel::Axis::kTensor));
    }
  }
  if (step_.stage().tied_across().empty()) return;
  communicator_ = builder_.AddCommunicator(
      "embedding",
      step_.grids().Layout(parallel::Axis::kPipeline).Only(step_.stage().tied_stages()));
  ready_ = builder_.AddEvent("tied gradients ready");
}

void TiedGradients::AddUpParts(const std::vector<Part>& parts) {
  const StreamId compute = step_.compute();
  const DataType type = parts.front().place.type;
  std::vector<program::BufferUse> reads{builder_.WritesAll(flat_)};
  std::vector<program::BufferUse> writes{builder_.ReadsAll(flat_)};
  std::vector<program::Effect> into, back;
  std::int64_t elements = 0;
  for (const Part& part : parts) {
    const std::int64_t own = step_.model().tensors[static_cast<std::size_t>(part.tensor)].elements;
    reads.push_back(Reads(part.place.buffer, part.place.offset, BytesOf(own, type)));
    writes.push_back(Writes(part.place.buffer, part.place.offset, BytesOf(own, type)));
    into.push_back(Move(At(flat_, elements, type), part.place, own));
    back.push_back(Move(part.place, At(flat_, elements, type), own));
    elements += own;
  }
  const Bytes bytes = BytesOf(elements, type);
  builder_.Allocate(compute, flat_);
  builder_.With(into);
  builder_.Run(compute, builder_.AddKernel(MemoryKernel("flatten", type, bytes, bytes)), reads);
  const program::Elements whole = At(flat_, 0, type);
  builder_.With(Collected(whole, whole, elements));
  builder_.Communicate(compute, builder_.AddAllReduce(tensor_communicator_, bytes, type),
                       {builder_.WritesAll(flat_)});
  builder_.With(back);
  builder_.Run(compute, builder_.AddKernel(MemoryKernel("unflatten", type, bytes, bytes)), writes);
  builder_.Release(flat_);
}

void TiedGradients::AddUpOne(StreamId stream, int tensor, const program::Elements& place) {
  const std::int64_t elements = step_.model().tensors[static_cast<std::size_t>(tensor)].elements;
  const Bytes bytes = BytesOf(elements, place.type);
  const Index all_reduce = builder_.AddAllReduce(communicator_, bytes, place.type);
  if (stream != step_.compute()) builder_.WaitForStream(stream, step_.compute(), ready_);
  builder_.With(Collected(place, place, elements));
  builder_.Communicate(stream, all_reduce, {Writes(place.buffer, place.offset, bytes)});
}

}  // namespace stepcast::lowering
